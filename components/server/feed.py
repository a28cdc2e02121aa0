"""The updates for the browser: numbered, with some time between them, and the component that receives them.

Updates are JSON texts with a sequence number, about four a second. Each holds only the rounds since the
previous one. Gradio may merge two updates that arrive together, so the browser asks `missing` for lost ones.

The browser names its runs "page-1", "page-2" and so on. A run stops when a later one of its page begins, and
`stop` ends a run that the server has not heard of yet. Gradio's own cancelling needs the number of an event,
which the browser learns too late for a quick visitor.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict
from itertools import accumulate, count
from typing import Any

import gradio as gr
import torch

from components.page import frame
from components.server import seats
from specdec import Round

INTERVAL = 0.25
"""Seconds between two updates: fast enough for the eye, slow enough to leave the decoder its time.
`tests.stress.watched` measures the cost.
"""

_LONGEST = 200_000
"""Characters of updates in one answer of `missing`."""
_KEPT_RUNS = 32
"""Runs whose updates can be asked for again: those with the most recent updates."""
_logs: OrderedDict[str, list[str]] = OrderedDict()
_reports = count()
_NAME = re.compile("([a-z0-9]{1,40})-([0-9]{1,9})")
"""A run's name: its page and its number there."""
_MOST_PAGES = 1000
_first: OrderedDict[str, int] = OrderedDict()
"""By page, the number of the first run that is not stopped, for the latest pages."""


class Log:
    """Writes the updates of a run at intervals, and stores those of the latest runs for `missing`.

    name: the run's name, given by the browser. Earlier runs of its page stop. Without a fitting name, the run
    gets one of its own.
    """

    def __init__(self, interval: float, name: object = None):
        named = _NAME.fullmatch(name) if isinstance(name, str) else None
        self._page, self._number = (named[1], int(named[2])) if named else (secrets.token_hex(16), 0)
        self.run = f"{self._page}-{self._number}"
        if named:
            _stop_before(self._page, self._number)
        self.interval = interval
        self.sent: list[str] = []
        self.flushed_at = float("-inf")

    def flush(self, phase: str, rounds: Sequence[Round] = (), **fields: Any) -> str:
        """The next update, which holds these rounds."""
        head = json.dumps({"run": self.run, "seq": len(self.sent), "phase": phase, **fields})
        # The rounds are JSON already, so they are joined instead of parsed and written again.
        update = f'{head[:-1]}, "rounds": [{",".join(round.to_json() for round in rounds)}]}}'
        self.sent.append(update)
        _keep(self)
        self.flushed_at = time.monotonic()
        return update

    def waits(self, place: seats.Place | None, phase: str = "waiting") -> str:
        """The update of a run that has not begun, with the visitor's place in line, if any.

        It has no sequence number, because a lost one is never asked for again. The page shows the result
        before until the first numbered update, so a run that is refused takes nothing away.
        """
        # Gradio does not send a value that equals the previous one
        update = {"run": self.run, "phase": phase, "rounds": [], "report": next(_reports)}
        return json.dumps(update if place is None else update | {"place": asdict(place)})

    def is_stopped(self) -> bool:
        """Whether the visitor has stopped the run."""
        return self._number < _first.get(self._page, 0)

    def until_stopped(self, updates: Generator[str]) -> Iterator[str]:
        """These updates, until the visitor stops the run."""
        with closing(updates):
            while not self.is_stopped() and (update := next(updates, None)) is not None:
                yield update


def _keep(log: Log) -> None:
    _logs[log.run] = log.sent
    _logs.move_to_end(log.run)
    while len(_logs) > _KEPT_RUNS + seats.MODEL.num_seated:
        _logs.popitem(last=False)


def missing(request: Any) -> list[str]:
    """The updates of run `request["run"]` from number `request["seq"]` on, or none if they were forgotten.

    The answer holds at most about `_LONGEST` characters; the browser asks again for the rest.
    """
    match request:
        case {"run": str(run), "seq": int(seq)}:
            updates = _logs.get(run, [])[max(0, seq) :]
            lengths = accumulate(map(len, updates))
            return updates[: max(1, sum(length <= _LONGEST for length in lengths))]
    return []


def stop(request: Any) -> None:
    """Stop the run of the name `request["run"]`, now or as soon as the server hears of it."""
    match request:
        case {"run": str(name)} if named := _NAME.fullmatch(name):
            _stop_before(named[1], int(named[2]) + 1)


def _stop_before(page: str, number: int) -> None:
    _first[page] = max(number, _first.get(page, 0))
    _first.move_to_end(page)
    while len(_first) > _MOST_PAGES:
        _first.popitem(last=False)


def error_message(error: Exception) -> str:
    """What the visitor reads about an error.

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


_TEMPLATE = """
<p class="run-status" role="status"></p>
<p class="run-error" role="alert" hidden></p>
"""


def panel() -> gr.HTML:
    """The component that receives updates. It shows the state of the run and any error."""
    return frame.panel("feed", _TEMPLATE, server_functions=[missing, stop])
