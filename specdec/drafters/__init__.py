"""Drafters propose the tokens that the target checks.

base the protocol of a drafter, and no drafting model the draft model, along a fixed topology independent the
same with independent draws context the draft model, along a tree that grows each round with the draft's
predictions copies paths copied from the text, beside the trees of one of these proposed users' own drafters:
objects with `propose` or `distribution`, which are described there ngram one of these: repeats what followed
the last occurrence of the text's end suffix another: q from the counts of what followed each suffix of the
text strings a draft model with another tokenizer, which writes ahead in its own tokens automaton the index of
both
"""

from specdec.drafters.ngram import NGram
from specdec.drafters.suffix import Suffix

__all__ = ["NGram", "Suffix"]
