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
    """The drafter of one run."""

    def prompt_session(self, length: int) -> Session | None:
        """The draft model's session, which processes a prompt of this length; None if there is no model, or
        its context leaves no room to draft after the prompt."""

    def draft(
        self, text_ids: Sequence[int], topology: Any, depth: int, noise: PositionNoise
    ) -> Requesting[Drafted]:
        """Draft a tree after the text: this topology, cut to this depth, with the noise of the round. A draft
        model also cuts it to the room in its context.

        The last token of the text is the tree's root. topology: a `Topology`, or the `ContextTree` from which
        the drafter grows a tree.
        """

    def commit(self, rows: Sequence[int]) -> None:
        """Keep the accepted rows of the last drafted tree, from the root's child downwards."""


class NoDrafter:
    """Drafts nothing: autoregressive decoding. A `Drafter`."""

    def prompt_session(self, length: int) -> Session | None:  # noqa: ARG002
        """No session, because no model drafts."""
        return None

    def draft(
        self,
        text_ids: Sequence[int],
        topology: Any,  # noqa: ARG002
        depth: int,  # noqa: ARG002
        noise: PositionNoise,  # noqa: ARG002
    ) -> Requesting[Drafted]:
        """The tree with the root alone."""
        yield from ()
        return only_root(text_ids)

    def commit(self, rows: Sequence[int]) -> None:
        """Does nothing, because nothing was drafted."""


def only_root(text_ids: Sequence[int]) -> Drafted:
    """The tree without drafted tokens."""
    return Drafted(_EMPTY, [text_ids[-1]], [None])


_EMPTY = Topology([])
