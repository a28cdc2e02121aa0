"""Forwards that decoding asks for, and who answers them.

Drafting and rounds are generators: they yield the `Forward` that they need next and are sent its logits. So
the same code decodes a run alone (`alone`), its sessions answering one by one, and many runs at once
(`answers`).
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple, TypeVar

from torch import Tensor

from specdec.devices import all_threads
from specdec.models.base import Session


class Forward(NamedTuple):
    """Tokens that a session is to take in.

    token_ids: int64 [n]; a list of them for a prefill. parents: pending nodes are added under these, as in
    `Session.forward`, and their logits [n, vocabulary] are the answer. None for a piece of a text, which
    becomes part of the prefix; the answer is None.
    """

    session: Session
    token_ids: Any
    parents: Sequence[int] | None

    def answer(self) -> Tensor | None:
        """What the session says to it by itself."""
        with all_threads():
            if self.parents is None:
                self.session.prefill(self.token_ids)
                return None
            return self.session.forward(self.token_ids, self.parents)


_T = TypeVar("_T")
Asking = Generator[Forward, Any, _T]
"""Work that yields the forwards it needs, is sent their answers, and returns what it found."""


def alone(work: Asking[_T]) -> _T:
    """Do this work to its end, each of its forwards answered by its own session; returns what it returns."""
    answer = None
    while True:
        try:
            forward = work.send(answer)
        except StopIteration as end:
            return end.value
        answer = forward.answer()
