"""The protocol of a run's drafter, and the drafter that drafts nothing, for autoregressive decoding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from specdec.methods import Drafted
from specdec.models import Session
from specdec.models.requests import Requesting
from specdec.race import PositionNoise
from specdec.topology import Topology


class Drafter(Protocol):
    """The drafter of one run: it drafts a tree in each round, and then keeps the accepted nodes."""

    def prompt_session(self, length: int) -> Session | None:
        """The draft model's session, which can process a prompt of this length. None if there is no draft
        model, or if its context leaves no room to draft after the prompt."""

    def draft(
        self, text_ids: Sequence[int], topology: Any, depth: int, noise: PositionNoise
    ) -> Requesting[Drafted]:
        """Draft a tree after the text. Its root is the last token of the text.

        topology: a `Topology`, or the `ContextTree` from which the drafter grows a tree. depth: the tree gets
        at most this many levels, and no more than fit into a draft model's context. noise: the random numbers
        of the round.
        """

    def commit(self, rows: Sequence[int]) -> None:
        """Keep the accepted nodes of the last tree. rows: their row numbers, from the root down."""


class NoDrafter:
    """A `Drafter` that drafts nothing, for autoregressive decoding."""

    def prompt_session(self, length: int) -> Session | None:  # noqa: ARG002
        """None, because no model drafts."""
        return None

    def draft(
        self,
        text_ids: Sequence[int],
        topology: Any,  # noqa: ARG002
        depth: int,  # noqa: ARG002
        noise: PositionNoise,  # noqa: ARG002
    ) -> Requesting[Drafted]:
        """The tree with only the root, the last token of the text."""
        yield from ()
        return only_root(text_ids)

    def commit(self, rows: Sequence[int]) -> None:
        """Does nothing, because nothing was drafted."""


def only_root(text_ids: Sequence[int]) -> Drafted:
    """The tree without drafted tokens: its only node is the last token of the text."""
    return Drafted(EMPTY, [text_ids[-1]], [None])


EMPTY = Topology([])
"""The tree without drafted tokens."""
