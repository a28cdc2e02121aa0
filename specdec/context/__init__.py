"""Context-aware acceptance, the paper's open question (Section 6): trees that depend on the draft's output.

    acceptance = specdec.learn.learn_context(pair, prompts, method="ersd")
    specdec.generate(pair, prompt, method="ersd", topology=specdec.ContextTree(acceptance, 16))

features     features of a node: the draft's distribution, its children, and noise that is decided already
acceptance   R(index | features) as logistic hazards, which `specdec.learn` learns from texts
growth       chooses nodes level by level, so that GSD stays exact
tree         `ContextTree`, the topology
"""

from specdec.context.acceptance import ContextAcceptance
from specdec.context.tree import ContextTree, Tree

__all__ = ["ContextAcceptance", "ContextTree", "Tree"]
