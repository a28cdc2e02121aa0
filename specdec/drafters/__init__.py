"""Drafters propose the tokens that the target checks.

catalogue     the built-in drafters by name, and the check of users' own
base          the protocol of a drafter, and the drafter that drafts nothing
model         the draft model, along a topology
independent   the same with independent draws
context       the draft model, along a tree that grows each round with the draft's predictions
copies        paths copied from the text, beside the trees of another drafter
strings       a draft model with another tokenizer, which writes ahead in its own tokens
proposed      users' drafters: objects with `propose` or `distribution`, which are described there
ngram         one of these: repeats the tokens that followed the last occurrence of the text's end
suffix        another: q from the counts of the tokens that followed each suffix of the text
automaton     the index of both
"""

from specdec.drafters.ngram import NGram
from specdec.drafters.suffix import Suffix

__all__ = ["NGram", "Suffix"]
