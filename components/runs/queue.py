"""All work of the model: jobs (`jobs`) in one fair queue, which one thread advances.

If the steps of a job return a `Run`, the job continues with the run's rounds, which are decoded in one batch
with the other runs of its pair.

In each cycle the thread first begins the new runs. Then it works for the addresses that have paid least: the
other jobs of each address get the time of about `LIGHT` rows, and its runs take part in one step of the
batch. A row is one token that the target evaluates.

- An address pays for the rows that the target evaluated for its trees and prompts, and for the time of its
  other work. It waits if it has paid at least `LIGHT` rows more than another address.
- If several runs need the same measurement (its key), one of them makes it and all use the result.
- An error ends the job that it belongs to. If a forward pass fails for several runs, `Batch` repeats it for
  each run alone. A step that fails as a whole ends all runs of its batch.
- The seconds of a round are its visitor's wait, including time shared with other runs.

Runs on ZeroGPU have their own process and need no turn of this thread (`zero_gpu`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Generator, Hashable, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from components.runs import lazy
from components.runs.jobs import Job, Owner, State
from specdec.decoding.run import Run

if TYPE_CHECKING:
    from specdec.decoding.batch import Batch

THREAD = "rounds"
"""The name of the working thread."""
SWITCH_INTERVAL = 0.0005
"""Python's switch interval in seconds. After each of its many small computations, the working thread may wait
this long for another thread that computes. With the default of 5 ms, other threads would delay it more.
"""
STEP = 128
"""The most rows of a step, unless a single run has more. A larger step would not be faster per row, and a new
run waits for the step in progress.
"""
LIGHT = 16
"""The most rows of one address in a step while another address has only a few rows. A short run then takes at
most three times as long as alone.
"""
_OF_RUN = 8
"""A run pays for at least this many rows in each step, because each run has fixed costs."""
_SECONDS = 1e-4
"""The assumed seconds per row until the first step was timed."""
_SHORTEST = 1e-3
"""A step that took less time counts as this many seconds. Work outside the batch is charged as rows, at the
last step's seconds per row, and would cost too much after a very short step."""


class Queue:
    """The jobs of this process. Any thread may submit one. The working thread ends with the last job."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._submitted: list[Job] = []
        self._is_running = False
        self._paid: dict[str, float] = {}
        # only the working thread uses the following attributes
        self._jobs: list[Job] = []
        self._measured_keys: set[Hashable] = set()
        self._seconds = _SECONDS
        self._lone: float | None = None

    def submit(
        self,
        owner: Owner,
        steps: Generator[Any, None, Any],
        begins_run: bool = False,
        key: Hashable | None = None,
    ) -> Job:
        """Queue a job. RuntimeError if the system has no thread left; the next call tries again.

        begins_run: whether the steps return a run. key: names the measurement that the run needs, if any.
        """
        job = Job(owner, steps, begins_run, key)
        with self._lock:
            if not self._is_running:
                threading.Thread(target=self._work, name=THREAD, daemon=True).start()
                self._is_running = True
            self._submitted.append(job)
        return job

    def paid(self, address: str) -> float:
        """The rows that this address has paid for.

        The number of an address without jobs is forgotten once no address with jobs has paid less.
        """
        return self._paid.get(address, 0.0)

    def _work(self) -> None:
        try:
            while self._has_jobs():
                self._cycle()
        except BaseException as error:  # without this, all visitors would wait for ever
            with self._lock:
                jobs = self._jobs + self._submitted
                self._jobs, self._submitted, self._is_running = [], [], False
            for job in jobs:
                job.end(error)

    def _has_jobs(self) -> bool:
        """Take over the jobs that were submitted, and remove those that were closed.

        Returns whether any job is left.
        """
        with self._lock:
            submitted, self._submitted = self._submitted, []
        self._jobs += submitted
        for job in [job for job in self._jobs if job.closed]:
            self._end(job)
        with self._lock:
            self._is_running = bool(self._jobs or self._submitted)
            if not self._is_running:
                self._measured_keys.clear()
            return self._is_running

    def _cycle(self) -> None:
        """Do one cycle of work: begin all new runs, then work for the addresses that have paid least."""
        turns = self._turns()
        new = [job for job in self._jobs if job.state is State.WAITING and job.begins_run]
        for job in [job for job in new if job.key is None or job.key in self._measured_keys]:
            self._advance(job)
        for address in turns:
            self._do_steps(address)
        room = self._room()
        turn = [job for address in turns for job in self._oldest(address, room)]
        for batch in dict.fromkeys(job.batch for job in turn if job.batch is not None):
            self._decode(batch, [job for job in turn if job.batch is batch])

    def _turns(self) -> list[str]:
        """The addresses with jobs that may work in this cycle.

        A new address counts as having paid as much as the address that has paid least. If one address had the
        model alone, its payment before its last step counts, because the new address waited for this step.
        """
        present = dict.fromkeys(job.address for job in self._jobs)
        least = min((self._paid[address] for address in present if address in self._paid), default=0.0)
        debts = {address: paid for address, paid in self._paid.items() if paid > least}
        start = least if self._lone is None else self._lone
        self._paid = debts | {address: self._paid.get(address, start) for address in present}
        least = min((self._paid[address] for address in present), default=0.0)
        self._lone = least if len(present) == 1 else None
        return [address for address in present if self._paid[address] < least + LIGHT]

    # ------------------------------------------------------------ steps

    def _do_steps(self, address: str) -> None:
        """Do steps of this address's jobs for about the time of `LIGHT` rows."""
        end = self._paid[address] + LIGHT
        while self._paid[address] < end and (job := self._next_step(address)) is not None:
            self._advance(job)

    def _next_step(self, address: str) -> Job | None:
        """The next job of this address that has steps to do.

        Of several jobs that need the same measurement, the first one makes it for all.
        """
        firsts: dict[Hashable, Job] = {}
        for job in self._jobs:
            if job.run is None and not job.closed:
                if job.key in self._measured_keys and job.address == address:
                    return job
                firsts.setdefault(job.key or job, job)
        return next((job for job in firsts.values() if job.address == address), None)

    def _advance(self, job: Job) -> None:
        """Do a job's next step. As soon as its run exists, the run joins its batch."""
        is_free = job.begins_run and job.state is State.WAITING and job.key is None
        job.state, start = State.RUNNING, time.monotonic()
        try:
            value = next(job.steps)
        except StopIteration as end:
            if job.key is not None:
                self._measured_keys.add(job.key)
            if isinstance(end.value, Run):
                job.begin(end.value)
                self._join(job, end.value)
            else:
                job.result = end.value
                self._end(job)
        except BaseException as error:
            self._end(job, error)
        else:
            if job.begins_run:
                self._measured_keys.discard(job.key)  # it measures again, so the pair has no stored result
            else:
                self._to_the_end([job])
                if value is not None:
                    job.add(value)
        seconds = time.monotonic() - start
        job.owner.worked += seconds
        if not is_free:
            self._paid[job.address] += seconds / self._seconds

    def _to_the_end(self, jobs: Sequence[Job]) -> None:
        """Move these jobs to the end of the list, so that jobs take turns."""
        movers = {*jobs} & {*self._jobs}
        self._jobs = [job for job in self._jobs if job not in movers] + [job for job in jobs if job in movers]

    # ------------------------------------------------------------ rounds

    def _room(self) -> int:
        """The largest number of rows that one address gets in a step.

        With several addresses, it is the number that the address with the fewest rows needs, but at most an
        equal share of `STEP`, and at least `LIGHT`.
        """
        rows = Counter[str]()
        for job in self._jobs:
            rows[job.address] += _rows(job) if job.batch is not None else 0
        return STEP if len(rows) < 2 else max(LIGHT, min(STEP // len(rows), *rows.values()))

    def _oldest(self, address: str, room: int) -> list[Job]:
        """The runs of this address that have waited longest and have at most `room` rows together; at least
        one run."""
        jobs = [job for job in self._jobs if job.batch is not None and job.address == address]
        fitting = sum(rows <= room for rows in accumulate(map(_rows, jobs)))
        return jobs[: max(1, fitting)]

    def _join(self, job: Job, run: Run) -> None:
        """Put the run into the batch of its pair."""
        from specdec.decoding.batch import Batch  # imports transformers, for which the page must not wait

        batches = (other.batch for other in self._jobs if other.batch is not None)
        batch = next((batch for batch in batches if batch.pair is run.pair), None)
        batch = Batch(run.pair) if batch is None else batch
        try:
            batch.add(run)
        except Exception as error:
            self._end(job, error)
        else:
            job.batch = batch

    def _end(self, job: Job, error: BaseException | None = None) -> None:
        """Remove an ended job, and its run from its batch."""
        if job in self._jobs:
            self._jobs.remove(job)
        job.steps.close()
        batch, job.batch = job.batch, None
        if batch is not None and job.run is not None and job.run in batch:
            batch.remove(job.run)
        job.end(error)

    def _decode(self, batch: Batch, turn: Sequence[Job]) -> None:
        """Do one step of a batch for these jobs."""
        lazy.use_threads(batch.pair)
        jobs = {job.run: job for job in turn if job.run is not None}
        start = time.monotonic()
        try:
            progress = batch.step(jobs)
        except Exception as error:
            logging.error("a step of %d runs failed", len(jobs), exc_info=error)
            for job in [job for job in self._jobs if job.batch is batch]:
                self._end(job, error)
            return
        self._charge(turn, batch.rows, time.monotonic() - start)
        for each in progress:
            if each.round is not None:
                jobs[each.run].add(each.round)
            if each.ended:
                self._end(jobs[each.run], each.error)

    def _charge(self, turn: Sequence[Job], rows_of: Mapping[Run, int], seconds: float) -> None:
        """Charge the addresses for a step. Its time is divided equally among the jobs.

        Each address pays for its own rows, and for at least `LIGHT` if the step served several addresses.
        """
        rows = Counter[str]()
        for job in turn:
            if job.run is not None and job.run in rows_of:
                rows[job.address] += max(_OF_RUN, rows_of[job.run])
            job.owner.worked += seconds / len(turn)
        charged = {address: max(LIGHT, own) for address, own in rows.items()} if len(rows) > 1 else rows
        for address, own in charged.items():
            self._paid[address] += own
        if charged:  # every run of the step may have failed before its forward
            self._seconds = max(seconds, _SHORTEST) / sum(charged.values())
        self._to_the_end(turn)


def _rows(job: Job) -> int:
    """The number of rows for which this job pays in its next step."""
    assert job.run is not None, "a job in a batch has a run"
    assert job.batch is not None, "only jobs in a batch have rows"
    return max(_OF_RUN, job.batch.rows_ahead(job.run))


QUEUE = Queue()
"""The queue of the page."""
