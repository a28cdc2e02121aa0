"""Who proposes the tokens that the target checks.

model        the draft model, along a fixed tree
context      the draft model, along a tree that grows each round with what it shows
"""
