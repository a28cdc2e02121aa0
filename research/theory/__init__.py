"""Theory beyond the paper (docs/theory.md), in bits; `specdec.theory` has the paper's.

lists         the winners of several races as drafts
parting       how likely two arithmetics give different tokens
preparation   continuations that are prepared while the target verifies
renewal       limits of tokens per call by the surprises of a text
offers        what GSD writes where a draw decides whether it is offered (docs/offers.md)
"""
