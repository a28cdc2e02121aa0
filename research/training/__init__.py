"""Trains the pairs and drafts that are shipped with the project, from a file of stories (README.md)."""
