"""Rounds that are decoded in a thread of their own, while those before them are on their way to the browser.

Gradio asks a generator for its next update only when it has sent the last one. A generator that decodes by
itself stands still meanwhile: a hundredth of the time on an idle machine, up to a fifth on a busy one.

    decoding thread    round  round  round  round  round  round  ...
    updates                   [1      2]            [3      4     5]
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from queue import Empty, SimpleQueue
from typing import Any

THREAD = "rounds"
"""The name of the decoding threads."""

SWITCH_INTERVAL = 0.0005
"""Seconds that a decoding thread, back from one of its many small computations, waits at most while another
thread runs Python code. With Python's own 5 ms, each update of the page held it up by several of them."""


class Ahead:
    """The rounds of a run, decoded from now on; the run is closed at its end and by `close`."""

    def __init__(self, run: Any):
        self._run = run
        self._rounds: SimpleQueue[Any] = SimpleQueue()
        self._stopped, self._ended = threading.Event(), threading.Event()
        self._error: BaseException | None = None
        threading.Thread(target=self._decode, name=THREAD, daemon=True).start()

    def batches(self, interval: float) -> Iterator[list[Any]]:
        """All rounds that are there, at least one, `interval` seconds after the batch before it was taken.

        The first batch comes with the first round, the last one as soon as the run has ended. An error of
        the run is raised after the rounds before it.
        """
        due, ended = time.monotonic(), False
        while not ended:
            batch = [self._rounds.get()]
            self._ended.wait(due - time.monotonic())
            due = time.monotonic() + interval
            with suppress(Empty):
                while True:
                    batch.append(self._rounds.get_nowait())
            ended = batch[-1] is None
            if rounds := [round for round in batch if round is not None]:
                yield rounds
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """Decode no further. The round in progress is not waited for: whoever closes must not stand still."""
        self._stopped.set()

    def _decode(self) -> None:
        try:
            with closing(self._run) as run:
                for round in run:
                    self._rounds.put(round)
                    if self._stopped.is_set():
                        break
        except BaseException as error:
            self._error = error
        finally:
            self._rounds.put(None)
            self._ended.set()
