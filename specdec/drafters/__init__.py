"""Who proposes the tokens that the target checks.

model        the draft model, along a fixed tree
context      the draft model, along a tree that grows each round with what it shows
proposed     anything else: objects with `propose` or `law`, which is where they are described
ngram        one of these: what followed the text's end when it was there before
suffix       another: q from the counts of what followed each suffix of the text
automaton    the index of both
"""

from specdec.drafters.ngram import NGram
from specdec.drafters.suffix import Suffix

__all__ = ["NGram", "Suffix"]
