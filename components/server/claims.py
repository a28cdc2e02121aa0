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
"""The largest advantage of a newcomer over long-time users, in seconds of the model."""


_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)


class Work(Protocol[_T_co]):
    """Work that takes turns at the model: a generator or a run."""

    def __next__(self) -> _T_co: ...
    def close(self) -> object:
        """End the work and free what it holds."""


class Visitor(NamedTuple):
    """The visitor of a run. address: visitors with the same address share seats and rounds; tab: the
    browser's tab, or None."""

    address: str
    tab: Hashable | None = None


NOBODY = Visitor("")
"""A visitor who does not come through the network."""


class Share(Protocol):
    """One visitor's share in the work of a turn. worked: seconds of the model so far."""

    worked: float

    @property
    def visitor(self) -> Visitor:
        """The visitor whose share this is."""


class Model:
    """The model. One claim holds it at a time. The next claim is that of the address with the least model
    time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[Claim] = deque()
        self._holder: Claim | None = None
        self._here: Counter[str] = Counter()
        self._used: dict[str, float] = {}

    @property
    def num_waiting(self) -> int:
        """Claims that wait for their turn."""
        return len(self._waiting)

    def enter(self, address: str) -> None:
        """Count one more seat of this address.

        A newcomer's model time starts at most `CREDIT` seconds below that of the others.
        """
        with self._lock:
            self._here[address] += 1
            least = min((self._used[other] for other in self._here if other in self._used), default=0.0)
            self._used[address] = max(self._used.get(address, 0.0), least - CREDIT)

    def leave(self, address: str) -> None:
        """Count one seat less. The address's time is forgotten once it no longer puts the address behind
        others."""
        with self._lock:
            self._here[address] -= 1
            self._here += Counter()  # drops addresses without a seat
            least = min((self._used[other] for other in self._here), default=float("inf"))
            for other in set(self._used) - set(self._here):
                if self._used[other] <= least - CREDIT or not self._here:
                    del self._used[other]

    def take(self, claim: Claim) -> None:
        """Wait until the claim holds the model."""
        with self._lock:
            if self._holder is None:
                self._holder = claim
                return
            claim.called.clear()
            self._waiting.append(claim)
        claim.called.wait()

    def used(self, claim: Claim, seconds: float) -> None:
        """Divide the seconds of the claim that holds the model equally among its shares."""
        with self._lock:
            for share in claim.shares:
                address, part = share.visitor.address, seconds / len(claim.shares)
                share.worked += part
                self._used[address] = self._used.get(address, 0.0) + part

    def pass_on(self, claim: Claim, again: bool = False) -> bool:
        """Give the model to the next waiting claim. Returns whether this claim keeps it.

        again: the claim wants another turn at once, and keeps the model if it comes before all waiting
        claims.
        """
        with self._lock:
            following = min(self._waiting, key=self.right, default=None)  # the first of equal claims
            if again and following is not None and self.right(claim) < self.right(following):
                return True
            if following is not None:
                self._waiting.remove(following)
                following.called.set()
            self._holder = following
            return False

    def right(self, claim: Claim) -> float:
        """Seconds for which the claim's address has held the model. The claim with the fewest is next.

        A claim of several addresses counts the one with the fewest seconds.
        """
        return min(map(self.used_by, claim.shares), default=0.0)

    def used_by(self, share: Share) -> float:
        """Seconds for which the share's address has held the model."""
        return self._used.get(share.visitor.address, 0.0)


class Claim:
    """Work that takes turns at a model. In this base class it belongs to nobody."""

    def __init__(self, model: Model):
        self.called = threading.Event()
        self._model = model

    @property
    def shares(self) -> Sequence[Share]:
        """The shares of the work. They are equal."""
        return ()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Hold the model for this work alone. Earlier claims come first."""
        self._model.take(self)
        try:
            with self._counted():
                yield
        finally:
            self._model.pass_on(self)

    def turns(self, work: Work[_T]) -> Generator[_T, None, Any]:
        """Do this work with one turn of the model for each value that it yields. Returns the work's result.

        After a step of a measurement, which yields None, the model is passed on. After any other value the
        claim keeps the model for its next turn if it still comes before all waiting claims. The consumer must
        therefore ask for the next value without delay (`scheduler`). The work is closed when this ends.
        """
        holds_model = False
        with closing(work):
            try:
                while True:
                    if not holds_model:
                        self._model.take(self)
                    holds_model = True
                    with self._counted():
                        result = next(work)
                    holds_model = self._model.pass_on(self, again=result is not None)
                    yield result
            except StopIteration as end:
                return end.value
            finally:
                if holds_model:
                    self._model.pass_on(self)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        start = time.monotonic()
        try:
            yield
        finally:
            self._model.used(self, time.monotonic() - start)
