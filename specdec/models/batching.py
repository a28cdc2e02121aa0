"""Answers many requests in one forward pass, if their model has our lean or compiled forward pass.

The hidden states of all texts' tokens are the rows of one [rows, width] matrix, and each text attends to its
own cache. Requests to all other models are answered one by one.

Noise is keyed by seed and position, so a run's text does not depend on the runs beside it. The last bits of
its logits may depend on them, because a product over more rows can add in another order. The compiled forward
pass always adds in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

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
    pended: dict[int, Any] = {}
    # Requests for logits come first, because only the first rows are scored.
    for number in sorted(numbers, key=lambda number: requests[number].parents is None):
        request = requests[number]
        # A piece of a prompt is a chain of nodes, all of which are committed afterwards.
        chain = range(-1, len(request.token_ids) - 1)
        try:
            session = cast(TreeSession, request.session)
            pended[number] = session.pend(chain if request.parents is None else request.parents)
        except Exception as error:
            result[number] = error
    together = [requests[number] for number in pended]
    for number, logits in zip(pended, _logits(together, [*pended.values()]), strict=True):
        result[number] = logits
        if requests[number].parents is None and logits is None:
            requests[number].session.commit(range(len(requests[number].token_ids)))


def _logits(requests: Sequence[Request], pended: Sequence[Any]) -> Sequence[Answer]:
    """The logits of each request, [n, vocabulary]; None for a piece of a prompt, which needs no logits.

    pended: what `session.pend` gave for each request. If the common forward pass fails, each request is
    computed alone; if that fails too, its answer is the error.
    """
    if not requests:
        return []
    try:
        return _scored(requests, pended)
    except Exception as error:
        if len(requests) == 1:
            return [error]
        return [_logits([request], [nodes])[0] for request, nodes in zip(requests, pended, strict=True)]


def _scored(requests: Sequence[Request], pended: Sequence[Any]) -> list[Answer]:
    session = cast(TreeSession, requests[0].session)
    device = session.model.device
    each = [request.token_ids for request in requests]  # tensors for nodes, lists for pieces of a prompt
    counts = [len(request.token_ids) for request in requests if request.parents is not None]
    uploaded = [ids.to(device) if isinstance(ids, Tensor) else upload(ids, device) for ids in each]
    token_ids = torch.cat(uploaded)  # [rows]
    with evaluating(session.model.module), all_threads():
        logits = session.score(token_ids, pended, sum(counts))  # [scored, vocabulary]
    pieces: list[Answer] = [None] * (len(requests) - len(counts))
    return [*logits.split(counts), *pieces] if counts else pieces
