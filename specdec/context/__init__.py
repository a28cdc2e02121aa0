"""Context-aware acceptance, the paper's open question (Section 6): trees that depend on the draft's output.

    acceptance = specdec.learn.learn_context(pair, prompts, method="ersd")
    specdec.generate(pair, prompt, method="ersd", topology=specdec.ContextTree(acceptance, 16))

features     features of a node: the draft's distribution, its children, and the noise decided so far
acceptance   R(index | features): logistic hazards, which `specdec.learn` learns from texts
growth       chooses nodes level by level, in a way that keeps GSD exact
tree         `ContextTree`, the topology
"""

from specdec.context.acceptance import ContextAcceptance
from specdec.context.tree import ContextTree, Tree

__all__ = ["ContextAcceptance", "ContextTree", "Tree"]
