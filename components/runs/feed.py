"""Makes the updates of a run, which are JSON texts, about four a second.

An update contains only the rounds since the previous update. Gradio sends each update once and in order, over
one event stream. A visitor who leaves closes the stream, which closes the generator of the updates.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import asdict
from functools import wraps
from typing import Any, ParamSpec

import torch

from components.runs import seats
from specdec import Round

_P = ParamSpec("_P")

INTERVAL = 0.25
"""Seconds between two updates: fast enough for the eye, slow enough to leave the decoder its time.
`tests.stress.watched` measures the cost.
"""

DESCRIPTION = """Decode speculatively. Yields updates as JSON texts.

An update has a `phase` (waiting, choosing, running, baseline, done or error) and the `rounds` since the
last update (`specdec.Round.from_json` reads one). The rounds of the phase "baseline" are those of plain
decoding. The first update of the phase "running" also has the `setup`. "done" has the run's `acceptance`, as
`specdec.Generation.acceptance`, and "error" has a `message`.
"""
"""The description of the endpoint for clients, without its settings."""


def update(phase: str, rounds: Sequence[Round] = (), **fields: Any) -> str:
    """The JSON text of an update with these rounds."""
    head = json.dumps({"phase": phase, **fields})
    # The rounds are JSON already, so they are joined instead of parsed and written again.
    return f'{head[:-1]}, "rounds": [{",".join(round.to_json() for round in rounds)}]}}'


def waits(place: seats.Place | None, phase: str = "waiting") -> str:
    """The JSON text of an update for a run that has not begun.

    place: the visitor's place in the waiting line; None leaves it out. The page shows the previous result
    until an update of another kind arrives. So a refused run leaves the previous result on the screen.
    """
    update = {"phase": phase, "waits": True, "rounds": []}
    return json.dumps(update if place is None else update | {"place": asdict(place)})


def ending_in_words(updates: Callable[_P, Iterator[str]]) -> Callable[_P, Generator[str]]:
    """A decorator for a generator of updates: an error in it becomes a last update with a message."""

    @wraps(updates)
    def worded(*args: _P.args, **kwargs: _P.kwargs) -> Generator[str]:
        try:
            yield from updates(*args, **kwargs)
        except Exception as error:
            yield update("error", message=error_message(error))

    return worded


def error_message(error: Exception) -> str:
    """The message for the visitor about an error.

    A ValueError is the visitor's mistake, and its text is returned. Any other error is written to the
    server's log, and the visitor reads one general sentence.
    """
    if isinstance(error, ValueError):
        return str(error)
    logging.error("a run failed", exc_info=error)
    # torch reports a full CPU memory by a plain RuntimeError
    if isinstance(error, MemoryError | torch.OutOfMemoryError) or "allocate memory" in str(error):
        return "The model ran out of memory: shorten the prompt or the length, or lower k."
    if "start new thread" in str(error):
        return "The server has no thread left. Try again in a minute."
    return "The model failed; the server's log says why."
