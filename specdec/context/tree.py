"""The topology that is no fixed shape: so many drafted tokens a round, where they are worth most."""

from __future__ import annotations

from dataclasses import dataclass

from specdec.checks import whole
from specdec.context.acceptance import ContextAcceptance

MOST = 1024
"""Largest k: a round plans its tree anew for each level."""


@dataclass(frozen=True)
class ContextTree:
    """k drafted tokens a round, in a tree that is grown while it is drafted.

    Every round has its own shape; it is in the round's nodes. ValueError for another k or acceptance.
    """

    acceptance: ContextAcceptance
    k: int

    def __post_init__(self) -> None:
        if not isinstance(self.acceptance, ContextAcceptance):
            raise ValueError(
                f"acceptance = {self.acceptance!r} is no ContextAcceptance; learn one with specdec.learn"
            )
        object.__setattr__(self, "k", whole("k", self.k, 1, MOST))

    @property
    def num_draft_tokens(self) -> int:
        """k."""
        return self.k

    @property
    def depth(self) -> int:
        """Most tokens on one path."""
        return self.k

    @property
    def is_sequence(self) -> bool:
        """Whether every shape that may come out is a sequence."""
        return self.k == 1
