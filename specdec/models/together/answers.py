"""Forwards of many runs answered together: where models have a lean or compiled forward, as the rows of one.

The rows of all texts lie side by side in one [rows, width] matrix for every product; each text attends to its
own cache. Other sessions answer one by one. Noise stays keyed by seed and position, so a run's text does not
depend on whose rows lie beside its own; the last bits of its logits may, as a product over more rows adds up
in another order, except on the compiled forward.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

import torch
from torch import Tensor

from specdec.devices import all_threads
from specdec.models.base import Session
from specdec.models.sessions import CompiledSession, LeanSession
from specdec.models.together.forwards import Forward
from specdec.models.weights import evaluating

if TYPE_CHECKING:
    from specdec.models.base import Wrapped

Answer = Tensor | Exception | None
"""To one forward; the error that this forward alone is to be answered with."""


class Sharing(Session, Protocol):
    """A session whose pending nodes can be scored beside those of others of its model."""

    @property
    def model(self) -> Wrapped:
        """Whose forward takes nodes of several sessions."""
        ...

    def pend(self, parents: Sequence[int]) -> Any:
        """Add pending nodes; returns what `score` needs of them."""
        ...

    def score(self, token_ids: Tensor, pended: Sequence[Any], scored: int) -> Tensor:
        """Logits [scored, vocabulary] of the first of these nodes, of several sessions."""
        ...


class _Part(NamedTuple):
    """One session's share. number: of its forward among those that were asked for. pended: its answer."""

    number: int
    forward: Forward
    session: Sharing
    pended: Any

    @property
    def rows(self) -> int:
        """n, new nodes."""
        return len(self.forward.token_ids)


def together(forwards: Sequence[Forward]) -> list[Answer]:
    """The answers to forwards of different sessions, in their order. What fails is answered by its error."""
    answers: list[Answer] = [None] * len(forwards)
    shared: dict[tuple[type, Wrapped], list[int]] = {}
    for number, forward in enumerate(forwards):
        session = forward.session
        if type(session) in (LeanSession, CompiledSession):
            # a subclass may have a forward of its own
            shared.setdefault((type(session), cast(Sharing, session).model), []).append(number)
        else:
            answers[number] = _by_itself(forward)
    for numbers in shared.values():
        if len(numbers) == 1:
            answers[numbers[0]] = _by_itself(forwards[numbers[0]])
        else:
            _answer_shared(forwards, numbers, answers)
    return answers


def _by_itself(forward: Forward) -> Answer:
    try:
        return forward.answer()
    except Exception as error:
        return error


@torch.inference_mode()
def _answer_shared(forwards: Sequence[Forward], numbers: Sequence[int], answers: list[Answer]) -> None:
    """Answer those of these numbers, all of sessions of one model."""
    parts = []
    # those that want logits first: they are the first rows
    for number in sorted(numbers, key=lambda number: forwards[number].parents is None):
        forward = forwards[number]
        session = cast(Sharing, forward.session)
        try:
            parts.append(_Part(number, forward, session, session.pend(_parents(forward))))
        except Exception as error:
            answers[number] = error
    for part, logits in zip(parts, _logits(parts), strict=True):
        answers[part.number] = logits
        if part.forward.parents is None and logits is None:
            part.session.keep(range(part.rows))


def _parents(forward: Forward) -> Sequence[int]:
    """A piece of a text is a chain of nodes, all of which are kept."""
    return range(-1, len(forward.token_ids) - 1) if forward.parents is None else forward.parents


def _logits(parts: Sequence[_Part]) -> Sequence[Answer]:
    """Of each part [n, vocabulary], None for a piece of a text; where all at once fails, one by one."""
    if not parts:
        return []
    try:
        return _scored(parts)
    except Exception as error:
        return [error] if len(parts) == 1 else [answer for part in parts for answer in _logits([part])]


def _scored(parts: Sequence[_Part]) -> list[Answer]:
    session = parts[0].session
    counts = [part.rows for part in parts if part.forward.parents is not None]
    token_ids = torch.cat([torch.as_tensor(part.forward.token_ids) for part in parts])  # [rows]
    token_ids = token_ids.to(session.model.device)
    with evaluating(session.model.module), all_threads():
        pended = [part.pended for part in parts]
        logits = session.score(token_ids, pended, sum(counts))  # [scored rows, vocabulary]
    pieces: list[Answer] = [None] * (len(parts) - len(counts))
    return [*logits.split(counts), *pieces] if counts else pieces
