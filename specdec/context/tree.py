"""A topology without a fixed shape: each round places its k drafted tokens where they are most likely to be
accepted."""

from __future__ import annotations

from dataclasses import dataclass

from specdec.checks import whole
from specdec.context.acceptance import ContextAcceptance
from specdec.topology import Topology

MOST = 1024
"""The largest k. A round plans its tree again for each level, which takes time for large trees."""


@dataclass(frozen=True)
class ContextTree:
    """k drafted tokens per round, in a tree that grows while it is drafted.

    Each round's shape is recorded in its nodes. ValueError for an invalid k or acceptance.
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
        """Drafted tokens per round."""
        return self.k

    @property
    def depth(self) -> int:
        """The largest number of tokens on one path."""
        return self.k

    @property
    def is_sequence(self) -> bool:
        """Whether every possible shape is a sequence."""
        return self.k == 1


Tree = Topology | ContextTree
"""The trees of a run: one fixed shape, or a new shape in each round."""
