"""Drafters propose the tokens that the target checks.

catalogue     the built-in drafters by name, and the check of users' drafters
base          the protocol of a drafter, and the drafter that drafts nothing
model         the draft model, along a topology
late          the same on a GPU, without waiting for the tokens of each level
independent   the draft model with independent draws, along a topology
context       the draft model, along a tree that grows each round with the draft's predictions
copies        paths copied from the text, in addition to the trees of another drafter
strings       a draft model with another tokenizer, which writes ahead in its own tokens
proposed      users' drafters: objects with a method `propose` or `distribution`
ngram         an object for `proposed`: repeats the tokens after the last occurrence of the text's end
suffix        an object for `proposed`: computes q from the tokens that followed each suffix of the text
automaton     the index of `ngram`, `suffix` and `copies`: all strings of a text with their counts
stopping      decides after each level whether the draft model drafts a further one
"""

from specdec.drafters.ngram import NGram
from specdec.drafters.suffix import Suffix

__all__ = ["NGram", "Suffix"]
