"""Decides which runs may use the model.

A run with a seat is decoded; the others wait in a line and learn their places in it. The number of seats is
the number of runs that the model has room for (`capacity`). Seated runs are decoded together (`queue`), so a
run of 400 tokens does not delay one of 20.

    with seats.MODEL.seat(address) as seat:
        for place in seat.wait():  # at most once a second, until the run has its seat
            yield f"place {place.number} of {place.of}"
        for rounds in seat.do(steps).batches(0.25):
            yield rounds

The seat's jobs end when the `with` block is left, also by the GeneratorExit of a visitor who stops or closes
the tab. The seat then goes to a run of the address with the fewest seats. Of several such addresses, the one
that has paid the queue least gets it. A quarter of the seats is reserved for addresses without a seat, so
that no address can delay the others.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from statistics import fmean
from typing import Any, NamedTuple

from components.runs import capacity
from components.runs.jobs import Job, Owner
from components.runs.queue import QUEUE, Queue
from components.visitors import limits

TOLD_EVERY = 1.0
"""The seconds between two messages to a waiting visitor about the place in the line."""
_RECENT = 16
"""The waiting time is estimated from the times of this many finished runs."""
_FULL = (
    "already, which is the limit. Try again in a minute; recorded runs, lessons and laboratories work "
    "without waiting"
)


class Bounds(NamedTuple):
    """Limits: the number of seats, of runs that wait, and of runs of one address, waiting or seated."""

    seats: int
    waiting: int
    of_address: int


@dataclass(frozen=True)
class Place:
    """A run's place in the line. number: 1 for the run that gets the next seat; of: the number of waiting
    runs; seconds: the estimated wait, None if unknown."""

    number: int
    of: int
    seconds: float | None


class Line:
    """The seats and the waiting line for one kind of work. bounds: a function that returns the present
    limits; queue: the queue that does the work."""

    def __init__(self, bounds: Callable[[], Bounds], queue: Queue = QUEUE):
        self._bounds = bounds
        self.queue = queue
        self._lock = threading.Lock()
        self._waiting: list[Seat] = []
        self._seated: list[Seat] = []
        self._recent: deque[float] = deque(maxlen=_RECENT)

    def seat(self, address: str = "") -> Seat:
        """Get a seat, or a place in the line if no seat is free.

        ValueError if the line is full, or if this visitor's address has too many runs.
        """
        with self._lock:
            self._check(address)
            seat = Seat(self, address)
            self._waiting.append(seat)
            self._fill()
        return seat

    @property
    def num_seated(self) -> int:
        """The number of runs that have a seat."""
        return len(self._seated)

    @property
    def num_waiting(self) -> int:
        """The number of runs that wait for a seat."""
        return len(self._waiting)

    def _check(self, address: str) -> None:
        bounds = self._bounds()
        beside = sum(seat.address == address for seat in (*self._seated, *self._waiting))
        if beside >= bounds.of_address:
            raise ValueError(f"{beside} runs from your network wait or run {_FULL}")
        if len(self._waiting) >= bounds.waiting and not self._free_for(address):
            raise ValueError(f"{len(self._waiting)} runs wait for the model {_FULL}")

    def _free_for(self, address: str) -> bool:
        """Whether a run of this address may get a seat now. The caller holds the lock."""
        seats = self._bounds().seats
        free, num_held = seats - len(self._seated), self._seats_by_address()[address]
        return free > (seats // 4 if num_held else 0)

    def _seats_by_address(self) -> Counter[str]:
        return Counter(seat.address for seat in self._seated)

    def _waiting_order(self) -> list[Seat]:
        """The waiting runs in the order in which they get seats: first the runs of the address with the
        fewest seats."""
        num_held, rank = self._seats_by_address(), {}
        for seat in self._waiting:
            rank[seat] = num_held[seat.address]
            num_held[seat.address] += 1
        # entries with equal keys stay in order of arrival
        return sorted(self._waiting, key=lambda seat: (rank[seat], self.queue.paid(seat.address)))

    def _fill(self) -> None:
        """Give seats to waiting runs while there is room. The caller holds the lock."""
        while seat := next((each for each in self._waiting_order() if self._free_for(each.address)), None):
            self._waiting.remove(seat)
            self._seated.append(seat)
            seat.seated.set()

    def _leave(self, seat: Seat) -> None:
        with self._lock:
            if seat in self._waiting:
                self._waiting.remove(seat)
            if seat in self._seated:
                self._seated.remove(seat)
                if seat.worked:
                    self._recent.append(seat.worked)
            self._fill()

    def _place(self, seat: Seat) -> Place | None:
        with self._lock:
            if seat not in self._waiting:
                return None
            number = self._waiting_order().index(seat) + 1
            return Place(number, len(self._waiting), self._seconds(number))

    def _seconds(self, number: int) -> float | None:
        """The estimated seconds until the run at this place gets a seat.

        A run needs the model for `mean` seconds on average, so a seated run ends every `mean` seconds.
        """
        if not self._recent:
            return None
        mean = fmean(self._recent)
        longest = max((seat.worked for seat in self._seated), default=0.0)
        return len(self._seated) * max(mean - longest, 0.0) + (number - 1) * mean


class Seat(Owner):
    """One visitor's seat, or the visitor's place in the line until a seat is free.

    It is a context manager. Leaving the block gives up the seat or the place.
    """

    def __init__(self, line: Line, address: str):
        super().__init__(address)
        self.seated = threading.Event()
        self._line = line
        self._jobs: list[Job] = []

    def __enter__(self) -> Seat:
        return self

    def __exit__(self, *_: Any) -> None:
        for job in self._jobs:
            job.close()
        self._line._leave(self)

    def do(self, steps: Generator[Any, None, Any], **options: Any) -> Job:
        """Queue a job that does these steps. It ends when the seat is given up, or earlier. options: further
        arguments of `Queue.submit`."""
        self._jobs.append(self._line.queue.submit(self, steps, **options))
        return self._jobs[-1]

    def wait(self, every: float = TOLD_EVERY) -> Iterator[Place]:
        """Yield the place in the waiting line at once, then every `every` seconds, until the run has a
        seat."""
        while (place := self._line._place(self)) is not None:
            yield place
            self.seated.wait(every)


def _runs() -> Bounds:
    most = limits.current()
    return Bounds(min(most.seats, capacity.known()), most.waiting, most.runs_per_address)


def _checks() -> Bounds:
    most = limits.current()
    return Bounds(most.checks, most.checks_waiting, most.runs_per_address)


MODEL = Line(_runs)
"""The line for runs."""
CHECKS = Line(_checks)
"""The waiting line for losslessness checks. It has room for a few only."""
