"""Context-aware acceptance, the paper's open question (Section 6): trees that grow with the draft's output.

acceptance = specdec.learn.learn_context(pair, prompts, method="ersd")
specdec.generate(pair, prompt, method="ersd", topology=specdec.ContextTree(acceptance, 16))

features     of a node: the draft's distribution, its children, and the noise decided so far
acceptance   R(index | features): logistic hazards, learned from texts by `learn`
growth       which nodes to add, level by level, without breaking GSD's exactness
"""

from specdec.context.acceptance import ContextAcceptance
from specdec.context.tree import ContextTree

__all__ = ["ContextAcceptance", "ContextTree"]
