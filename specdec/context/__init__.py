"""Context-aware acceptance, the paper's open end (Section 6): trees grown with what the draft shows.

    acceptance = specdec.learn.learn_context(pair, prompts, method="ersd")
    specdec.generate(pair, prompt, method="ersd", topology=specdec.ContextTree(acceptance, 16))

features     what is seen at a node: the draft's distribution, its children, and the noise decided so far
acceptance   R(index | features): logistic hazards, learnt from texts by `learn`
growth       which nodes to add, level by level, never using what would make GSD inexact
"""

from specdec.context.acceptance import ContextAcceptance
from specdec.context.tree import ContextTree

__all__ = ["ContextAcceptance", "ContextTree"]
