"""Trains the pairs and drafts that the project ships.

    python -m research.training --pair stories --corpus CORPUS --work WORK
    python -m research.training --pair smollm2-draft --stories FILE --work WORK

A stopped run goes on where it was. `stories` holds the stages of the story pair.
"""
