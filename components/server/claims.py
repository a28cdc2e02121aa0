"""Turns at the model: one claim has it at a time, and who comes next is decided by address.

Next is whoever's address has had the model for the least time; within an address, in the order of asking.
Runs that are decoded together share the time of a turn, and are next where one of them is.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Generator, Hashable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, NamedTuple, Protocol, TypeVar

CREDIT = 5.0
"""Seconds of the model by which a newcomer is ahead of those who have been there for long, at most."""


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


class Share(Protocol):
    """A part in the work of a turn. worked: seconds of the model."""

    worked: float

    @property
    def visitor(self) -> Visitor:
        """Whose it is."""


class Model:
    """The model, which one claim holds at a time; next is that whose address has held it for the least."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asking: deque[Claim] = deque()
        self._holder: Claim | None = None
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

    def take(self, claim: Claim) -> None:
        """Wait until the model is this claim's."""
        with self._lock:
            if self._holder is None:
                self._holder = claim
                return
            claim.called.clear()
            self._asking.append(claim)
        claim.called.wait()

    def used(self, claim: Claim, seconds: float) -> None:
        """Count what the claim that has the model did with it, in equal parts for whoever shares in it."""
        with self._lock:
            for share in claim.shares:
                address, part = share.visitor.address, seconds / len(claim.shares)
                share.worked += part
                self._used[address] = self._used.get(address, 0.0) + part

    def pass_on(self, claim: Claim, again: bool = False) -> bool:
        """Give the model to the next claim that asks for it; returns whether this one keeps it.

        again: this claim wants its next turn at once, and keeps the model where it comes before all who ask.
        """
        with self._lock:
            following = min(self._asking, key=self.right, default=None)  # the first of those that are alike
            if again and following is not None and self.right(claim) < self.right(following):
                return True
            if following is not None:
                self._asking.remove(following)
                following.called.set()
            self._holder = following
            return False

    def right(self, claim: Claim) -> float:
        """Seconds for which the claim's address has held the model: the fewer, the sooner it is next.

        Of several addresses, the one that has held it least.
        """
        return min(map(self.used_by, claim.shares), default=0.0)

    def used_by(self, share: Share) -> float:
        """Seconds for which the address of this share has held the model."""
        return self._used.get(share.visitor.address, 0.0)


class Claim:
    """Work that takes turns at a model: as it is, nobody's."""

    def __init__(self, model: Model):
        self.called = threading.Event()
        self._model = model

    @property
    def shares(self) -> Sequence[Share]:
        """Whose work it is, in equal parts."""
        return ()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """The model for this work alone, after those who come before."""
        self._model.take(self)
        try:
            with self._counted():
                yield
        finally:
            self._model.pass_on(self)

    def turns(self, work: Work[_T]) -> Generator[_T, None, Any]:
        """Do this work, a turn of the model for each thing that it yields; what it returns is returned.

        After a step of a measurement, which yields None, the model is passed on. After anything else it is
        kept for the next turn as long as all who ask come after this work: so whoever takes what is yielded
        must ask for the next without delay (`scheduler`). The work is closed when this ends.
        """
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
