"""Theory beyond the paper (docs/theory.md), in bits; `specdec.theory` has the theory of the paper.

lists         acceptance if the winners of several races are the drafts
parting       the probability that two arithmetics give different tokens
preparation   hits of continuations that are prepared while the target verifies
renewal       limits of tokens per call from the surprisals of a text
tree_choice   GSD's distribution if a drawn token itself decides whether it is verified (docs/tree_choice.md)
"""
