"""The line for the model: a run waits for a seat, and knows its place meanwhile.

As many runs have a seat at once as the model has room for (`capacity`). They are decoded together
(`scheduler`), so a run of 400 tokens does not delay one of 20. All work of the model takes turns (`claims`):

    with turns.MODEL.seat(visitor) as seat:
        for place in seat.wait():  # at most once a second, until the run has its seat
            yield f"place {place.number} of {place.of}"
        with seat.turn():  # nothing else uses the model now
            tree = specdec.optimal_topology(specdec.measure_acceptance(pair), 8)
        for round in seat.turns(specdec.stream(pair, prompt, topology=tree)):  # a turn for each round
            yield round

Leaving the `with`, also by the GeneratorExit of a visitor who stops or closes the tab, gives the seat to the
next in line.

Seats and turns are shared between addresses, so that one of them can't hold up the others:

    line     whoever has the fewest seats, then the least of the model, is next; a quarter of the seats is for
             addresses that have none
    turns    whoever has had the model for the least time is next; within an address, in the order of asking.
             Runs that are decoded together share the time, and are next where one of them is

Where rounds run in another process (ZeroGPU), sit and wait in this one: a turn excludes threads only.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from components.guard import addresses, limits
from components.server import capacity
from components.server.claims import NOBODY, Claim, Model, Visitor

if TYPE_CHECKING:
    from gradio import Request

TOLD_EVERY = 1.0
"""Seconds between two reports to somebody who waits."""
_RECENT = 16
"""Finished runs that the time of a wait is estimated from."""


def visitor(request: Request) -> Visitor:
    """Whose request it is: by address, and by the browser's tab that sent it."""
    assert request.request is not None, "a request that came through the network"
    return Visitor(addresses.address(request.request.scope), request.session_hash)


class Bounds(NamedTuple):
    """Of a line: seats, and runs that wait for one; runs of one address and of one tab, waiting or seated."""

    seats: int
    waiting: int
    of_address: int
    of_tab: int


@dataclass(frozen=True)
class Place:
    """A place in line. number: 1 is seated next; of: how many wait; seconds: about, None: unknown."""

    number: int
    of: int
    seconds: float | None


class Turns:
    """Seats at one model. bounds: gives those in force; model: shared with other lines, or its own."""

    def __init__(self, bounds: Callable[[], Bounds], model: Model | None = None):
        self._bounds = bounds
        self.model = model or Model()
        self._lock = threading.Lock()
        self._line: list[Seat] = []
        self._seated: list[Seat] = []
        self._recent: deque[float] = deque(maxlen=_RECENT)

    def seat(self, visitor: Visitor = NOBODY) -> Seat:
        """A place in the line, or a seat where one is free.

        ValueError where the line is full, or this visitor's tab or address has enough runs already.
        """
        with self._lock:
            self._check(visitor)
            seat = Seat(self, visitor)
            self._line.append(seat)
            self._fill()
        self.model.enter(visitor.address)
        return seat

    @property
    def num_seated(self) -> int:
        """Runs that have a seat."""
        return len(self._seated)

    @property
    def num_waiting(self) -> int:
        """Runs that wait for one."""
        return len(self._line)

    def _check(self, visitor: Visitor) -> None:
        bounds, present = self._bounds(), [seat.visitor for seat in (*self._seated, *self._line)]
        own = present.count(visitor) if visitor.tab is not None else 0
        beside = sum(other.address == visitor.address for other in present)
        if own >= bounds.of_tab:
            raise ValueError(
                f"{own} of your runs wait or run already, and the limit here is {bounds.of_tab} at "
                "once: stop one, or wait until it ends"
            )
        if beside >= bounds.of_address:
            raise ValueError(
                f"{beside} runs from your network wait or run already, which is the limit here: try again "
                "in a minute; recorded runs, lessons and laboratories need no waiting"
            )
        if len(self._line) >= bounds.waiting and not self._free_for(visitor.address):
            raise ValueError(
                f"{len(self._line)} runs wait for the model already, which is the limit here: try again in a "
                "minute; recorded runs, lessons and laboratories need no waiting"
            )

    def _free_for(self, address: str) -> bool:
        """Whether this address could sit down now. The lock is held."""
        seats = self._bounds().seats
        free, held = seats - len(self._seated), self._held()[address]
        return free > (seats // 4 if held else 0)

    def _held(self) -> Counter[str]:
        return Counter(seat.visitor.address for seat in self._seated)

    def _ordered(self) -> list[Seat]:
        """The line in the order in which it will be seated: the address with the fewest seats is next."""
        held, rank = self._held(), {}
        for seat in self._line:
            rank[seat] = held[seat.visitor.address]
            held[seat.visitor.address] += 1
        # in order of arrival where alike
        return sorted(self._line, key=lambda seat: (rank[seat], self.model.right(seat)))

    def _fill(self) -> None:
        """Seat whoever is next, as long as there is room. The lock is held."""
        while seat := next((each for each in self._ordered() if self._free_for(each.visitor.address)), None):
            self._line.remove(seat)
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
        self.model.leave(seat.visitor.address)

    def _place(self, seat: Seat) -> Place | None:
        with self._lock:
            if seat not in self._line:
                return None
            number = self._ordered().index(seat) + 1
            return Place(number, len(self._line), self._seconds(number))

    def _seconds(self, number: int) -> float | None:
        """Until the run at this place is seated. Seated runs share the time: one ends every `mean`."""
        if not self._recent:
            return None
        mean = fmean(self._recent)
        longest = max((seat.worked for seat in self._seated), default=0.0)
        return len(self._seated) * max(mean - longest, 0.0) + (number - 1) * mean


class Seat(Claim):
    """One run's place with `Turns`; a context manager. worked: its seconds of the model, those that it shared
    with other runs in equal parts."""

    def __init__(self, turns: Turns, visitor: Visitor):
        super().__init__(turns.model)
        self.visitor = visitor
        self.worked = 0.0
        self.seated = threading.Event()
        self._turns = turns

    @property
    def shares(self) -> tuple[Seat]:
        """A seat's own turns are for its own run."""
        return (self,)

    def __enter__(self) -> Seat:
        return self

    def __exit__(self, *_: Any) -> None:
        self._turns._leave(self)

    def wait(self, every: float = TOLD_EVERY) -> Iterator[Place]:
        """The place in line, at once and then every `every` seconds, until the run is seated."""
        while (place := self._turns._place(self)) is not None:
            yield place
            self.seated.wait(every)


def _runs() -> Bounds:
    most = limits.current()
    return Bounds(
        min(most.seats, capacity.known()), most.waiting, most.runs_per_address, most.runs_per_visitor
    )


def _checks() -> Bounds:
    most = limits.current()
    return Bounds(most.checks, most.checks_waiting, most.runs_per_address, most.runs_per_visitor)


MODEL = Turns(_runs)
"""The line for the page's model."""
CHECKS = Turns(_checks, MODEL.model)
"""A short one for losslessness checks, whose work takes turns with the runs: they share the interpreter."""
