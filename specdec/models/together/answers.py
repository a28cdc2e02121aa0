"""Forwards of many runs answered together: where models have a lean or compiled forward, as the rows of one.

The rows of all texts lie side by side in one [rows, width] matrix for every product; each text attends to its
own cache. Other sessions answer one by one. Noise stays keyed by seed and position, so a run's text does not
depend on whose rows lie beside its own; the last bits of its logits may, as a product over more rows adds up
in another order, except on the compiled forward.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from specdec.devices import all_threads
from specdec.models.kernels import CompiledSession
from specdec.models.kernels import decoder as compiled
from specdec.models.sessions import LeanSession
from specdec.models.together.attention import Rows
from specdec.models.together.forwards import Forward
from specdec.models.weights import evaluating

if TYPE_CHECKING:
    from specdec.models.base import Wrapped

Answer = Tensor | Exception | None
"""To one forward; the error that this forward alone is to be answered with."""


class _Part(NamedTuple):
    """One session's share. number: of its forward among those that were asked for. positions: int64 [n] of
    lean rows, None of compiled ones, which hold them."""

    number: int
    forward: Forward
    rows: Rows | compiled.Rows
    positions: Tensor | None


def together(forwards: Sequence[Forward]) -> list[Answer]:
    """The answers to forwards of different sessions, in their order. What fails is answered by its error."""
    answers: list[Answer] = [None] * len(forwards)
    shared: dict[tuple[type, Wrapped], list[int]] = {}
    for number, forward in enumerate(forwards):
        # a subclass may have a forward of its own
        if type(forward.session) in (LeanSession, CompiledSession):
            shared.setdefault((type(forward.session), forward.session.model), []).append(number)
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
        try:
            parts.append(_Part(number, forward, *forward.session.pend(_parents(forward))))
        except Exception as error:
            answers[number] = error
    for part, logits in zip(parts, _logits(parts), strict=True):
        answers[part.number] = logits
        if part.forward.parents is None and logits is None:
            part.forward.session.keep(range(part.rows.count))


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


def _scored(parts: Sequence[_Part]) -> list[Tensor | None]:
    session = parts[0].forward.session
    counts = [part.rows.count for part in parts if part.forward.parents is not None]
    token_ids = torch.cat([torch.as_tensor(part.forward.token_ids) for part in parts])  # [rows]
    token_ids = token_ids.to(session.model.device)
    score = _compiled_logits if type(session) is CompiledSession else _lean_logits
    with evaluating(session.model.module), all_threads():
        logits = score(session.model, token_ids, parts, sum(counts))  # [scored rows, vocabulary]
    pieces = [None] * (len(parts) - len(counts))
    return [*logits.split(counts), *pieces] if counts else pieces


def _compiled_logits(model: Wrapped, token_ids: Tensor, parts: Sequence[_Part], scored: int) -> Tensor:
    return model.compiled.forward(token_ids, [part.rows for part in parts], scored)


def _lean_logits(model: Wrapped, token_ids: Tensor, parts: Sequence[_Part], scored: int) -> Tensor:
    lean = model.lean
    last = max(part.rows.kv.shape[2] for part in parts)  # no position is beyond its place
    turns = lean.turned(torch.cat([part.positions for part in parts]), last)
    hidden = lean.hidden_of(token_ids, turns, [part.rows for part in parts])  # [rows, width]
    return lean.logits(hidden[:scored]) if scored else hidden[:0]
