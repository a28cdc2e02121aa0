"""Trains the pairs and drafts that the project ships.

    python -m specdec.training --pair stories --corpus CORPUS --work WORK
    python -m specdec.training --pair smollm2-draft --stories FILE --work WORK

A killed run goes on where it stopped. `specdec.tiny` holds the stages of the story pair.
"""
