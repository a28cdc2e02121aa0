"""One fair queue for the model, with a visible place in it.

A run first takes a seat; a few of them are taken at once and the others wait in line, knowing their place.
Seated runs share the model round by round: whoever asked for 400 tokens does not hold up the one who asked
for 20. Everything that runs the model goes through it:

    with turns.MODEL.seat(visitor) as seat:
        for place in seat.wait():  # at most once a second, until the run has its seat
            yield f"place {place.number} of {place.of}"
        with seat.turn():  # the model is this run's alone
            tree = specdec.optimal_topology(specdec.measure_acceptance(pair), 8)
        for round in seat.turns(specdec.stream(pair, prompt, topology=tree)):  # a turn for each round
            yield round

Leaving the `with`, also by the GeneratorExit of a visitor who stops or closes the tab, gives the seat to the
next in line.

Seats and rounds are shared between addresses, so that one of them can't hold up the others:

    line     whoever has the fewest seats, then the least of the model, is next; a quarter of the seats is for
             addresses that have none
    rounds   whoever has had the model for the least time is next; within an address, in the order of asking

Where rounds run in another process (ZeroGPU), sit and wait in this one: a turn excludes threads only.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Hashable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from components.guard import addresses, limits

if TYPE_CHECKING:
    from gradio import Request

TOLD_EVERY = 1.0
"""Seconds between two reports to somebody who waits."""
CREDIT = 5.0
"""Seconds of the model by which a newcomer is ahead of those who have been there for long, at most."""
_RECENT = 16
"""Finished runs that the time of a wait is estimated from."""


_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)


class Work(Protocol[_T_co]):
    """What takes turns: a generator, or a run."""

    def __next__(self) -> _T_co: ...
    def close(self) -> object:
        """End it and free what it holds."""


class Visitor(NamedTuple):
    """Whose run it is. address: shares seats and rounds with others; tab: of a browser, None: of none."""

    address: str
    tab: Hashable | None = None


NOBODY = Visitor("")
"""Whoever does not come through the network."""


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


class Model:
    """The model, which one seat holds at a time; next is one whose address has held it for the least time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asking: deque[Seat] = deque()
        self._holder: Seat | None = None
        self._here: Counter[str] = Counter()
        self._used: dict[str, float] = {}

    def enter(self, address: str) -> None:
        """Count one more seat of this address.

        A newcomer begins `CREDIT` seconds ahead of the others at most, however little it had before.
        """
        with self._lock:
            self._here[address] += 1
            least = min((self._used[other] for other in self._here if other in self._used), default=0.0)
            self._used[address] = max(self._used.get(address, 0.0), least - CREDIT)

    def leave(self, address: str) -> None:
        """Count one seat of this address less; its time is forgotten once it puts it behind nobody."""
        with self._lock:
            self._here[address] -= 1
            self._here += Counter()  # drops those with none
            least = min((self._used[other] for other in self._here), default=float("inf"))
            for other in set(self._used) - set(self._here):
                if self._used[other] <= least - CREDIT or not self._here:
                    del self._used[other]

    def take(self, seat: Seat) -> None:
        """Wait until the model is this seat's."""
        with self._lock:
            if self._holder is None:
                self._holder = seat
                return
            seat.called.clear()
            self._asking.append(seat)
        seat.called.wait()

    def used(self, seat: Seat, seconds: float) -> None:
        """Count what the seat that has the model did with it."""
        seat.worked += seconds
        with self._lock:
            address = seat.visitor.address
            self._used[address] = self._used.get(address, 0.0) + seconds

    def pass_on(self, seat: Seat, again: bool = False) -> bool:
        """Give the model to the next seat that asks for it; returns whether this one keeps it.

        again: this seat wants its next turn at once, and keeps the model where it comes before all who ask.
        """
        with self._lock:
            following = min(self._asking, key=self.right, default=None)  # the first of those that are alike
            if again and following is not None and self.right(seat) < self.right(following):
                return True
            if following is not None:
                self._asking.remove(following)
                following.called.set()
            self._holder = following
            return False

    def right(self, seat: Seat) -> float:
        """Seconds for which this seat's address has held the model: the fewer, the sooner it is next."""
        return self._used.get(seat.visitor.address, 0.0)


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


class Seat:
    """One run's place with `Turns`; a context manager. worked: seconds that it had the model."""

    def __init__(self, turns: Turns, visitor: Visitor):
        self.visitor = visitor
        self.worked = 0.0
        self.seated, self.called = threading.Event(), threading.Event()
        self._turns, self._model = turns, turns.model

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
        """The model for this run alone, after those who come before."""
        assert self.seated.is_set(), "wait for the seat first"
        self._model.take(self)
        try:
            with self._counted():
                yield
        finally:
            self._model.pass_on(self)

    def turns(self, work: Work[_T]) -> Generator[_T, None, Any]:
        """Do this work, a turn of the model for each thing that it yields; what it returns is returned.

        After a step of a measurement, which yields None, the model is passed on. After anything else it is
        kept for the next turn as long as all who ask come after this run: so whoever takes what is yielded
        must ask for the next without delay (`ahead`). The work is closed when this ends.
        """
        assert self.seated.is_set(), "wait for the seat first"
        kept = False
        with closing(work):
            try:
                while True:
                    if not kept:
                        self._model.take(self)
                    kept = True
                    with self._counted():
                        found = next(work)
                    kept = self._model.pass_on(self, again=found is not None)
                    yield found
            except StopIteration as end:
                return end.value
            finally:
                if kept:
                    self._model.pass_on(self)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        start = time.monotonic()
        try:
            yield
        finally:
            self._model.used(self, time.monotonic() - start)


def _runs() -> Bounds:
    most = limits.current()
    return Bounds(most.seats, most.waiting, most.runs_per_address, most.runs_per_visitor)


def _checks() -> Bounds:
    most = limits.current()
    return Bounds(most.checks, most.checks_waiting, most.runs_per_address, most.runs_per_visitor)


MODEL = Turns(_runs)
"""The line for the page's model."""
CHECKS = Turns(_checks, MODEL.model)
"""A short one for losslessness checks, whose work takes turns with the runs: they share the interpreter."""
