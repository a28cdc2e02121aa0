"""Measures the costs of our own code; `specdec bench` compares whole runs (README.md)."""
