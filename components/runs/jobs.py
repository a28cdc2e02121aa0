"""A job: work of one owner, with a state, values for its reader, and a result or an error.

    submit ──▶ WAITING ──▶ RUNNING ──▶ DONE, FAILED or CANCELLED

The work is a generator of small steps, which `queue` advances: a measurement, a check, or the beginning of a
run. Work that has no small steps runs in a thread of its own (`beside`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Hashable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from specdec.decoding.batch import Batch
    from specdec.decoding.run import Run


@dataclass(eq=False)
class Owner:
    """The owner of a job. address: the visitor's address, "" for the server. Visitors with one address share
    its part of the seats and of the rounds. worked: the seconds that the model has worked for the owner."""

    address: str = ""
    worked: float = 0.0


class State(Enum):
    """The states that a job passes through."""

    WAITING = auto()
    RUNNING = auto()
    DONE = auto()
    FAILED = auto()
    CANCELLED = auto()


class Job:
    """A piece of work for one owner, such as a run.

    It continues until it ends or is closed, even if nobody reads its values. run: the run that the steps
    returned. batch: the batch in which the run is decoded. values: the rounds of the run, or the values that
    the steps yielded, without None. result: the value that the steps returned. error: why the job failed.
    key: the name of the measurement that the run needs, if any.
    """

    def __init__(
        self,
        owner: Owner,
        steps: Generator[Any, None, Any],
        begins_run: bool = False,
        key: Hashable | None = None,
    ):
        self.owner, self.steps, self.begins_run, self.key = owner, steps, begins_run, key
        self.state = State.WAITING
        self.run: Run | None = None
        self.batch: Batch | None = None
        self.values: list[Any] = []
        self.result: Any = None
        self.error: BaseException | None = None
        self.closed = False
        self._begun, self._news, self._ended = (threading.Event() for _ in range(3))

    @property
    def address(self) -> str:
        """The address of the owner."""
        return self.owner.address

    def beginning(self, every: float) -> Iterator[None]:
        """Wait until the run has begun, and yield every `every` seconds meanwhile.

        Raises the error if the run cannot begin.
        """
        while not self._begun.wait(every):
            yield
        if self.run is None and self.error is not None:
            raise self.error

    def batches(self, interval: float) -> Iterator[list[Any]]:
        """Yield lists of new values. Each has at least one value and comes at least `interval` seconds after
        the previous list.

        The first list comes with the first value, the last one as soon as the job ends. An error of the job
        is raised after the values before it.
        """
        due, num_sent, has_ended = time.monotonic(), 0, False
        while not has_ended:
            self._news.wait()
            self._ended.wait(due - time.monotonic())
            due = time.monotonic() + interval
            self._news.clear()
            if has_ended := self._ended.is_set():
                self._news.set()  # the next reader must not wait
            if values := self.values[num_sent:]:
                num_sent += len(values)
                yield values
        if self.error is not None:
            raise self.error

    @property
    def ended(self) -> bool:
        """Whether the job is done, has failed or was cancelled."""
        return self._ended.is_set()

    def wait(self) -> Any:
        """Wait for the end. Returns the result, or raises the error."""
        self._ended.wait()
        if self.error is not None:
            raise self.error
        return self.result

    def close(self) -> None:
        """Stop the job. The call does not wait for the step or round in progress."""
        self.closed = True

    def begin(self, run: Run) -> None:
        """Store the job's run. From now on the job's values are the run's rounds."""
        self.run = run
        self._begun.set()

    def add(self, value: Any) -> None:
        """Store the next value for the readers of the job."""
        self.values.append(value)
        self._news.set()

    def end(self, error: BaseException | None = None) -> None:
        """Mark the job as ended. error: the error if the job failed."""
        self.error = error
        self.state = State.FAILED if error else State.CANCELLED if self.closed else State.DONE
        for event in (self._ended, self._news, self._begun):
            event.set()


class Closed(Exception):  # noqa: N818 - a wish of the owner, not an error
    """Raised inside the work of a closed job, so that the work ends."""


def beside(work: Callable[[Callable[[Any], None]], Any]) -> Job:
    """Run work of the server that has no small steps, such as loading a pair, as a job in a thread of its
    own.

    work: gets a function that adds a value to the job, and that raises `Closed` once the job is closed. The
    returned value of `work` is the result of the job. RuntimeError if the system has no thread left.
    """
    job = Job(Owner(), (_ for _ in ()))

    def report(value: Any) -> None:
        if job.closed:
            raise Closed
        job.add(value)

    def run() -> None:
        job.state = State.RUNNING
        try:
            job.result = work(report)
        except BaseException as error:
            job.end(error)
        else:
            job.end()

    threading.Thread(target=run, daemon=True).start()
    return job
