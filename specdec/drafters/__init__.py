"""Drafters: each proposes tokens after the text, which the target then checks.

catalogue     the built-in drafters by name, and the check of users' drafters
base          the protocol of a drafter, and the drafter that drafts nothing
model         the draft model, along a topology
late          the same on a GPU, where the host does not wait for the tokens of each level
independent   the draft model with independent draws, along a topology
context       the draft model, along a tree that grows in each round from the draft's predictions
copies        paths copied from the text, in addition to the tree of another drafter
strings       a draft model with another tokenizer, which continues the text in its own tokens
proposed      users' drafters: objects with a method `propose` or `distribution`
ngram         an object for `proposed`: repeats the tokens after the last occurrence of the text's end
suffix        an object for `proposed`: computes q from the tokens that followed each suffix of the text
automaton     the index that `ngram`, `suffix` and `copies` use: all strings of a text with their counts
stopping      decides after each level of a tree whether the draft model drafts the next one
"""

from specdec.drafters.ngram import NGram
from specdec.drafters.suffix import Suffix

__all__ = ["NGram", "Suffix"]
