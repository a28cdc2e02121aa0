"""Trains the pairs and drafts that the project ships, from a file of stories (README.md)."""
