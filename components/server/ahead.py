"""Where runs that have a seat are advanced: begun each in its own thread, decoded in that of `together`.

Gradio asks a generator for its next update only when it has sent the last one. A generator that decodes by
itself stands still meanwhile: a hundredth of the time on an idle machine, up to a fifth on a busy one.

    decoding thread    step step begun  round  round  round  round  round  ...
    updates                                   [1      2]            [3     4]

A run in another process (ZeroGPU) goes on in the thread that began it, a turn of the model for each round.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Protocol

from components.server.together import RUNS, THREAD, Together
from components.server.turns import Seat
from specdec.decoding.run import Run

if TYPE_CHECKING:
    from specdec import ContextTree, Round, Topology
    from specdec.decoding.auto import Steps
    from specdec.pair import Pair

SWITCH_INTERVAL = 0.0005
"""Seconds that a decoding thread, back from one of its many small computations, waits at most while another
thread runs Python code. With Python's own 5 ms, each update of the page held it up by several of them."""


class Decoding(Protocol):
    """A run that has begun, here or in another process; its rounds come one by one."""

    topology: Topology | ContextTree
    prompt_ids: tuple[int, ...]
    seed: int
    prefill_seconds: float

    @property
    def pair(self) -> Pair:
        """Whose run it is."""

    def __iter__(self) -> Iterator[Round]: ...
    def __next__(self) -> Round: ...
    def close(self) -> None:
        """End it and free what it holds."""


class Ahead:
    """A run that is begun, in steps, and decoded from now on, with the turns of this seat.

    It is closed at its end and by `close`. together: where runs of this process are decoded.
    """

    def __init__(self, seat: Seat, beginning: Steps[Decoding], together: Together = RUNS):
        assert seat.seated.is_set(), "wait for the seat first"
        self._run: Decoding | None = None
        self._seat, self._beginning, self._together = seat, beginning, together
        self._rounds: SimpleQueue[Round | None] = SimpleQueue()
        self._begun, self._stopped, self._ended = (threading.Event() for _ in range(3))
        self._error: BaseException | None = None
        # in the context of whoever asked: by it a GPU is lent
        context = contextvars.copy_context()
        threading.Thread(target=context.run, args=(self._decode,), name=THREAD, daemon=True).start()

    @property
    def run(self) -> Decoding:
        """The run, which has begun."""
        assert self._run is not None, "wait for its beginning first"
        return self._run

    def beginning(self, every: float) -> Iterator[None]:
        """Yield once in `every` seconds until the run has begun; raises what kept it from beginning."""
        while not self._begun.wait(every):
            yield
        if self._run is None and self._error is not None:
            raise self._error

    def batches(self, interval: float) -> Iterator[list[Round]]:
        """The run's rounds in lists: all that are there, at least one, `interval` seconds after the last.

        The first list comes with the first round, the last one as soon as the run has ended. An error of
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

    @property
    def stopped(self) -> bool:
        """Whether it is closed."""
        return self._stopped.is_set()

    def tell(self, round: Round) -> None:
        """Take in the run's next round."""
        self._rounds.put(round)

    def end(self, error: BaseException | None = None) -> None:
        """There are no further rounds; error: why."""
        self._error = error
        self._rounds.put(None)
        self._ended.set()
        self._begun.set()

    def _decode(self) -> None:
        try:
            self._run = self._begin()
            if isinstance(self._run, Run):
                self._begun.set()
                self._together.join(self._seat, self._run, self)
                return
            self._take_turns()
        except BaseException as error:
            self.end(error)
        else:
            self.end()

    def _begin(self) -> Decoding | None:
        """The run, by a turn for each step of its beginning; None where it was closed before."""
        with closing(self._seat.turns(self._beginning)) as steps:
            while not self.stopped:
                try:
                    next(steps)
                except StopIteration as end:
                    return end.value
        return None

    def _take_turns(self) -> None:
        """Decode a run of another process."""
        if self._run is None:
            return
        self._begun.set()
        with closing(self._seat.turns(self._run)) as rounds:
            for round in rounds:
                self.tell(round)
                if self.stopped:
                    break
