"""The typed streaming endpoint `/generate`: the same rounds as JSON, for `gradio_client`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, closing
from typing import Any

import gradio as gr
from anyio.to_thread import run_sync

import specdec
from components.server import run, turns
from components.server.ahead import Ahead
from components.server.settings import VisitorSettings
from specdec.decoding.auto import Steps

_LOOK = 0.05
"""Seconds between two looks whether a waiting run has its seat."""


def endpoint(pair: Any) -> None:
    """Add `/generate` to the page that is being built."""

    async def generate(
        request: gr.Request,
        prompt: str,
        method: str = "ersd",
        topology: str = "sequence",
        k: int = 4,
        max_new_tokens: int = 64,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int = 0,
        chat: bool = False,
    ) -> AsyncIterator[str]:
        """Decode speculatively; yields one round after the other as JSON (`specdec.Round.from_json`).

        method: ersd, gsd or ar. topology: simple, sequence, batch, specinfer, optimal (of k drafted
        tokens) or auto. top_k = 0 and top_p = 1 switch those off; temperature = 0 is greedy. The same
        seed gives the same rounds. chat: let the chat template write the prompt, where the models have one.
        Runs wait for their turn behind those of the page's visitors.
        """
        settings = VisitorSettings(
            prompt, method, topology, k, max_new_tokens, temperature, top_k, top_p, seed, chat=chat
        )
        try:
            with turns.MODEL.seat(turns.Visitor(run.visitor(request).address)) as seat:
                async with aclosing(_rounds(pair, settings.checked(), seat)) as rounds:
                    async for round in rounds:
                        yield round.to_json()
        except Exception as error:
            raise gr.Error(run.told(error), print_exception=False) from None

    gr.api(generate, api_name="generate", concurrency_limit=None)


async def _rounds(pair: Any, settings: VisitorSettings, seat: turns.Seat) -> AsyncIterator[specdec.Round]:
    """Rounds, decoded ahead in a thread; who waits for a seat holds none."""
    while not seat.seated.is_set():
        await asyncio.sleep(_LOOK)
    taken = seat.steps(run.starting(pair, settings))
    while (decoding := await run_sync(_step, taken)) is None:
        pass
    with closing(Ahead(seat.rounds(decoding))) as ahead:
        batches = ahead.batches(0)
        while (batch := await run_sync(next, batches, None)) is not None:
            for round in batch:
                yield round


def _step(steps: Steps[Any]) -> Any:
    """One step; what they found, None before."""
    try:
        next(steps)
    except StopIteration as end:
        return end.value
    return None
