"""The typed streaming endpoint `/generate`: the same rounds as JSON, for `gradio_client`."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, closing
from dataclasses import asdict
from functools import partial
from typing import Any

import gradio as gr
from anyio import CapacityLimiter
from anyio.to_thread import run_sync

import specdec
from components.page.settings import VisitorSettings, parameters
from components.server import feed, run, seats, topologies
from specdec.figures.topologies import TOPOLOGIES
from specdec.methods import METHODS
from specdec.pair import Pair
from specdec.trace import Acceptance

_LOOK = 0.05
"""Seconds between two checks whether a waiting run has a seat."""

_DESCRIPTION = f"""Decode speculatively; yields one round after the other as JSON (`specdec.Round.from_json`).

method: {" or ".join(METHODS)}. topology: {" or ".join(TOPOLOGIES)}; k drafted tokens, not read by
{" and ".join(topologies.WITHOUT_K)}. top_k = 0 and top_p = 1 switch those off; temperature = 0 is greedy. The
same seed gives the same rounds. chat: let the chat template write the prompt, where the models have one.
tree: the tree in place of a measured one, as the page's address writes it. The last round also has the
run's `acceptance`, as `specdec.Generation.acceptance`. Runs wait for their turn behind those of the page's
visitors.
"""
"""The endpoint's description for clients."""


def endpoint(pair: Pair) -> None:
    """Add `/generate` to the page that is being built."""

    async def generate(request: gr.Request, *values: Any) -> AsyncIterator[str]:
        settings = VisitorSettings(**dict(zip((each.name for each in parameters()), values)))
        try:
            with seats.MODEL.seat(seats.Visitor(seats.visitor(request).address)) as seat:
                in_thread = partial(run_sync, limiter=_limiter(request))
                async with aclosing(_rounds(pair, settings.checked(), seat, in_thread)) as rounds:
                    decoded: list[specdec.Round] = []
                    async for round in rounds:
                        decoded.append(round)
                        yield _with_acceptance(decoded) if round.finish else round.to_json()
        except Exception as error:
            raise gr.Error(feed.error_message(error), print_exception=False) from None

    generate.__doc__ = _DESCRIPTION
    _declare(generate)
    gr.api(generate, api_name="generate", concurrency_limit=None)


def _declare(generate: Callable[..., Any]) -> None:
    """Give the function the parameters of the settings, from which Gradio makes the endpoint."""
    request = inspect.Parameter("request", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=gr.Request)
    signature = inspect.Signature([request, *parameters()], return_annotation=AsyncIterator[str])
    types = {each.name: each.annotation for each in signature.parameters.values()}
    generate.__annotations__ = types | {"return": AsyncIterator[str]}
    generate.__signature__ = signature  # type: ignore[attr-defined]  # a function takes any attribute


def _with_acceptance(rounds: Sequence[specdec.Round]) -> str:
    """The JSON of the last round and of the acceptance of all."""
    return json.dumps(json.loads(rounds[-1].to_json()) | {"acceptance": asdict(Acceptance.of(rounds))})


async def _rounds(
    pair: Pair, settings: VisitorSettings, seat: seats.Seat, in_thread: Callable[..., Awaitable[Any]]
) -> AsyncGenerator[specdec.Round]:
    """The rounds of a run. A run that waits for a seat occupies no thread. in_thread: calls a function in a
    thread."""
    while not seat.seated.is_set():
        await asyncio.sleep(_LOOK)
    with closing(await in_thread(run.begin, seat, pair, settings)) as job:
        beginning, batches = job.beginning(_LOOK), job.batches(0)
        while not await in_thread(next, beginning, True):
            pass
        while (batch := await in_thread(next, batches, None)) is not None:
            for round in batch:
                yield round


def _limiter(request: gr.Request) -> CapacityLimiter:
    """The limit of Gradio's threads. AnyIO's own 40 threads also check every request: 40 runs in them would
    stop the server.
    """
    assert request.request is not None, "a request that came through the network"
    limiter: CapacityLimiter = request.request.app.get_blocks().limiter
    return limiter
