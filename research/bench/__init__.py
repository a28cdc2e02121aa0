"""Measures the costs of this project's code; `specdec bench` compares whole runs (README.md)."""
