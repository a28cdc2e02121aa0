"""`ContextTree`: a tree of k drafted tokens whose shape is chosen in each round for the most acceptance."""

from __future__ import annotations

from dataclasses import dataclass

from specdec.checks import whole
from specdec.context.acceptance import ContextAcceptance
from specdec.topology import Topology

MOST = 1024
"""The largest k. Each level of a round plans the whole tree again, which is slow for large trees."""


@dataclass(frozen=True)
class ContextTree:
    """Up to k drafted tokens per round, in a tree that grows while it is drafted.

    The record of a round gives its tree by the paths of its nodes. ValueError for an invalid k or acceptance.
    """

    acceptance: ContextAcceptance
    k: int

    def __post_init__(self) -> None:
        if not isinstance(self.acceptance, ContextAcceptance):
            raise ValueError(
                f"acceptance = {self.acceptance!r} is not a ContextAcceptance; learn one with specdec.learn"
            )
        object.__setattr__(self, "k", whole("k", self.k, 1, MOST))

    @property
    def num_draft_tokens(self) -> int:
        """The largest number of drafted tokens per round."""
        return self.k

    @property
    def depth(self) -> int:
        """The largest number of tokens on one path."""
        return self.k

    @property
    def is_sequence(self) -> bool:
        """Whether every possible tree is a sequence."""
        return self.k == 1


Tree = Topology | ContextTree
"""The tree of a run: one fixed shape, or a new shape in each round."""
