"""Trains the pairs and drafts that the project ships, from a file of stories.

    python -m research.training --pair stories --stories FILE --work WORK
    python -m research.training --pair smollm2-draft --stories FILE --work WORK

A stopped run continues from the files in WORK. The folder `stories` has the code for the story pair. Sizes
and numbers of steps are in the recipes: `stories/recipe.py` and `smollm2_draft.Recipe`.
"""
