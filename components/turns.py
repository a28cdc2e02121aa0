"""One fair queue for the model, with a visible place in it.

A run first takes a seat; `Limits.seats` of them are taken at once and the others wait in line, knowing
their place. Seated runs share the model round by round, in the order in which they ask: whoever asked for
400 tokens does not hold up the one who asked for 20. Everything that runs the model goes through it:

    with turns.MODEL.seat(visitor) as seat:
        for place in seat.wait():  # at most once a second, until the run has its seat
            yield f"place {place.number} of {place.of}"
        with seat.turn():  # the model is this run's alone
            run = specdec.stream(pair, prompt)
        for round in seat.rounds(run):  # a turn for each round; closes the run
            yield round

Leaving the `with`, also by the GeneratorExit of a visitor who stops or closes the tab, gives the seat to the
next in line.

Where rounds run in another process (ZeroGPU), sit and wait in this one: a turn excludes threads only.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from components import limits

TOLD_EVERY = 1.0
"""Seconds between two reports to somebody who waits."""
_RECENT = 16
"""Finished runs that the time of a wait is estimated from."""


@dataclass(frozen=True)
class Place:
    """A place in line. number: 1 is seated next; of: how many wait; seconds: about, None: unknown."""

    number: int
    of: int
    seconds: float | None


class Turns:
    """Seats at one model. bounds: gives the limits in force (`seats`, `waiting`, `runs_per_visitor`)."""

    def __init__(self, bounds: Callable[[], limits.Limits] = limits.current):
        self._bounds = bounds
        self._lock = threading.Lock()
        self._line: deque[Seat] = deque()
        self._seated: list[Seat] = []
        self._asking: deque[Seat] = deque()
        self._holder: Seat | None = None
        self._recent: deque[float] = deque(maxlen=_RECENT)

    def seat(self, visitor: Hashable | None = None) -> Seat:
        """A place at the end of the line, or a seat where one is free.

        visitor: whose runs are counted together; None is not counted. ValueError where the line is full or
        this visitor has enough runs already.
        """
        with self._lock:
            self._check(visitor)
            seat = Seat(self, visitor)
            self._line.append(seat)
            self._fill()
            return seat

    @property
    def num_seated(self) -> int:
        """Runs that have a seat."""
        return len(self._seated)

    @property
    def num_waiting(self) -> int:
        """Runs that wait for one."""
        return len(self._line)

    def _check(self, visitor: Hashable | None) -> None:
        bounds = self._bounds()
        own = sum(seat.visitor == visitor for seat in (*self._seated, *self._line))
        if visitor is not None and own >= bounds.runs_per_visitor:
            raise ValueError(
                f"{own} of your runs wait or run already, and the limit here is {bounds.runs_per_visitor} at "
                "once: stop one, or wait until it ends"
            )
        if len(self._line) >= bounds.waiting:
            raise ValueError(
                f"{len(self._line)} runs wait for the model already, which is the limit here: try again in a "
                "minute; recorded runs, lessons and laboratories need no waiting"
            )

    def _fill(self) -> None:
        """Seat whoever is next, as long as there is room. The lock is held."""
        while self._line and len(self._seated) < self._bounds().seats:
            seat = self._line.popleft()
            self._seated.append(seat)
            seat.seated.set()

    def _leave(self, seat: Seat) -> None:
        with self._lock:
            if seat in self._line:
                self._line.remove(seat)
            if seat in self._seated:
                self._seated.remove(seat)
                if seat.worked:
                    self._recent.append(seat.worked)
            self._fill()

    def _place(self, seat: Seat) -> Place | None:
        with self._lock:
            if seat not in self._line:
                return None
            number = self._line.index(seat) + 1
            return Place(number, len(self._line), self._seconds(number))

    def _seconds(self, number: int) -> float | None:
        """Until the run at this place is seated. Seated runs share the time: one ends every `mean`."""
        if not self._recent:
            return None
        mean = fmean(self._recent)
        longest = max((seat.worked for seat in self._seated), default=0.0)
        return len(self._seated) * max(mean - longest, 0.0) + (number - 1) * mean

    def _take(self, seat: Seat) -> None:
        with self._lock:
            if self._holder is None:
                self._holder = seat
                return
            seat.called.clear()
            self._asking.append(seat)
        seat.called.wait()

    def _pass_on(self) -> None:
        with self._lock:
            self._holder = self._asking.popleft() if self._asking else None
            if self._holder is not None:
                self._holder.called.set()


class Seat:
    """One run's place with `Turns`; a context manager. worked: seconds that it had the model."""

    def __init__(self, turns: Turns, visitor: Hashable | None):
        self.visitor = visitor
        self.worked = 0.0
        self.seated, self.called = threading.Event(), threading.Event()
        self._turns = turns

    def __enter__(self) -> Seat:
        return self

    def __exit__(self, *_: Any) -> None:
        self._turns._leave(self)

    def wait(self, every: float = TOLD_EVERY) -> Iterator[Place]:
        """The place in line, at once and then every `every` seconds, until the run is seated."""
        while (place := self._turns._place(self)) is not None:
            yield place
            self.seated.wait(every)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """The model for this run alone, after those who asked before."""
        assert self.seated.is_set(), "wait for the seat first"
        self._turns._take(self)
        start = time.monotonic()
        try:
            yield
        finally:
            self.worked += time.monotonic() - start
            self._turns._pass_on()

    def rounds(self, run: Any) -> Iterator[Any]:
        """The rounds of a run, a turn for each; the run is closed with this."""
        with closing(run):
            while True:
                with self.turn():
                    round = next(run, None)
                if round is None:
                    return
                yield round


MODEL = Turns()
"""The queue of the page's model."""
