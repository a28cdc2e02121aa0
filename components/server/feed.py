"""What goes to the browser: numbered updates, some time apart, and the component that receives them.

Updates are JSON texts with a sequence number, about four a second; each carries only the rounds since
the one before it. Gradio may merge two that arrive together, so the browser asks `missing` for what
it did not see.
"""

from __future__ import annotations

import json
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import asdict
from itertools import accumulate, count
from typing import Any

import gradio as gr
import torch

from components.page import frame
from components.server import turns
from specdec import Round

INTERVAL = 0.25
"""Seconds between two updates: an eye still follows them, and they leave the decoder its time, which
`tests.stress.watched` measures."""

_LONGEST = 200_000
"""Characters of updates in one answer of `missing`."""
_KEPT_RUNS = 32
"""Runs whose updates can be asked for again, those told something last."""
_kept: OrderedDict[str, list[str]] = OrderedDict()
_reports = count()


class Log:
    """Writes updates, some time apart, and keeps the updates of the latest runs for `missing`."""

    def __init__(self, interval: float):
        self.run = secrets.token_urlsafe(12)
        self.interval = interval
        self.sent: list[str] = []
        self.flushed_at = float("-inf")

    def flush(self, phase: str, rounds: Sequence[Round] = (), **fields: Any) -> str:
        """The next update, with these rounds."""
        head = json.dumps({"run": self.run, "seq": len(self.sent), "phase": phase, **fields})
        # The rounds are JSON already: join them instead of parsing and writing them once more.
        update = f'{head[:-1]}, "rounds": [{",".join(round.to_json() for round in rounds)}]}}'
        self.sent.append(update)
        _keep(self)
        self.flushed_at = time.monotonic()
        return update


def _keep(log: Log) -> None:
    _kept[log.run] = log.sent
    _kept.move_to_end(log.run)
    while len(_kept) > _KEPT_RUNS + turns.MODEL.num_seated:
        _kept.popitem(last=False)


def missing(request: Any) -> list[str]:
    """The updates of run `request["run"]` from number `request["seq"]` on; empty where forgotten.

    Where they have more than `_LONGEST` characters together, the first of them: the browser asks again.
    """
    match request:
        case {"run": str(run), "seq": int(seq)}:
            updates = _kept.get(run, [])[max(0, seq) :]
            lengths = accumulate(map(len, updates))
            return updates[: max(1, sum(length <= _LONGEST for length in lengths))]
    return []


def waits(place: turns.Place) -> str:
    """The update for a visitor in line. It has no sequence number: a lost one is never asked for again."""
    # the browser is not told of a value that is the same as the one before
    return json.dumps({"phase": "waiting", "place": asdict(place), "report": next(_reports)})


def told(error: Exception) -> str:
    """What a visitor reads of an error: a mistake of theirs in full; any other goes to the server's log."""
    if isinstance(error, ValueError):
        return str(error)
    logging.error("a run failed", exc_info=error)
    # of a CPU, torch tells by a plain RuntimeError
    if isinstance(error, MemoryError | torch.OutOfMemoryError) or "allocate memory" in str(error):
        return "The model ran out of memory: shorten the prompt or the length, or lower k."
    if "start new thread" in str(error):
        return "The server has no thread left. Try again in a minute."
    return "The model failed; the server's log says why."


_TEMPLATE = """
<p class="run-status" role="status"></p>
<p class="run-error" role="alert" hidden></p>
"""


def panel() -> gr.HTML:
    """The one component that receives updates; it shows how the run stands and any error."""
    return frame.panel("feed", _TEMPLATE, server_functions=[missing])
