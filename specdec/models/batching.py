"""Answers many requests in one forward pass, if their model has our lean or compiled forward pass.

The hidden states of all texts' tokens are the rows of one [rows, width] matrix, and each text attends to its
own cache. Requests to all other models are answered one by one.

Noise is keyed by seed and position, so a run's text does not depend on the runs beside it. The last bits of
its logits may depend on them, because a product over more rows can add in another order. The compiled forward
pass always adds in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import torch
from torch import Tensor

from specdec.devices import all_threads, upload
from specdec.models.requests import Request
from specdec.models.sessions.cached import TreeSession
from specdec.models.sessions.own_forward import CompiledSession, LeanSession
from specdec.models.weights import evaluating

if TYPE_CHECKING:
    from specdec.models.base import PreparedModel

Answer = Tensor | Exception | None
"""The answer to one request: logits, None for a prefill, or the error that the request raised."""


class _Part(NamedTuple):
    """One request in a common forward pass. number: the request's index. pended: what `session.pend` gave."""

    number: int
    request: Request
    session: TreeSession
    pended: Any

    @property
    def rows(self) -> int:
        """n, the number of new nodes (or prompt tokens) in this part."""
        return len(self.request.token_ids)


def answers(requests: Sequence[Request]) -> list[Answer]:
    """The answers to requests of different sessions, in the order of the requests.

    The answer to a failed request is the error that it raised. Other requests are answered all the same.
    """
    result: list[Answer] = [None] * len(requests)
    shared: dict[tuple[type, PreparedModel], list[int]] = {}
    for number, request in enumerate(requests):
        session = request.session
        # no `isinstance`: a subclass may have another forward pass
        if type(session) in (LeanSession, CompiledSession):
            shared.setdefault((type(session), cast(TreeSession, session).model), []).append(number)
        else:
            result[number] = _alone(request)
    for numbers in shared.values():
        if len(numbers) == 1:
            result[numbers[0]] = _alone(requests[numbers[0]])
        else:
            _answer_together(requests, numbers, result)
    return result


def _alone(request: Request) -> Answer:
    try:
        return request.answer()
    except Exception as error:
        return error


@torch.inference_mode()
def _answer_together(requests: Sequence[Request], numbers: Sequence[int], result: list[Answer]) -> None:
    """Writes to `result` the answers to the requests with these numbers, which must be for one model."""
    parts = []
    # Requests for logits come first, because only the first rows are scored.
    for number in sorted(numbers, key=lambda number: requests[number].parents is None):
        request = requests[number]
        session = cast(TreeSession, request.session)
        # A piece of a prompt is a chain of nodes, all of which are committed afterwards.
        chain = range(-1, len(request.token_ids) - 1)
        try:
            pended = session.pend(chain if request.parents is None else request.parents)
            parts.append(_Part(number, request, session, pended))
        except Exception as error:
            result[number] = error
    for part, logits in zip(parts, _logits(parts), strict=True):
        result[part.number] = logits
        if part.request.parents is None and logits is None:
            part.session.commit(range(part.rows))


def _logits(parts: Sequence[_Part]) -> Sequence[Answer]:
    """The logits of each part, [n, vocabulary]; None for a piece of a prompt, which needs no logits.

    If the common forward pass fails, each part is computed alone; if that fails too, its answer is the error.
    """
    if not parts:
        return []
    try:
        return _scored(parts)
    except Exception as error:
        return [error] if len(parts) == 1 else [answer for part in parts for answer in _logits([part])]


def _scored(parts: Sequence[_Part]) -> list[Answer]:
    session, device = parts[0].session, parts[0].session.model.device
    counts = [part.rows for part in parts if part.request.parents is not None]
    each = [part.request.token_ids for part in parts]  # tensors for nodes, lists for pieces of a prompt
    uploaded = [ids.to(device) if isinstance(ids, Tensor) else upload(ids, device) for ids in each]
    token_ids = torch.cat(uploaded)  # [rows]
    with evaluating(session.model.module), all_threads():
        logits = session.score(
            token_ids, [part.pended for part in parts], sum(counts)
        )  # [scored, vocabulary]
    pieces: list[Answer] = [None] * (len(parts) - len(counts))
    return [*logits.split(counts), *pieces] if counts else pieces
