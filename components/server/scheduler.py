"""Begins and decodes all runs of this process, in one thread.

    submit ──▶ beginning ──▶ running ──▶ done       a measurement's step, or a step of a batch: each takes a
                   '────────────┴──────▶ failed     turn of the model, which others use too (`claims`)

There is a batch for each pair of models. Runs join and leave it between two steps.

- If several runs need the same measurement (its key), one of them makes it and all use the result.
- Addresses do not delay each other: a step advances only a few runs of an address that has many, and an
  address whose runs have large trees takes part in fewer steps. The next measurement is that of the address
  that has used the model least.
- An error ends the run that it belongs to. If a step fails as a whole, its runs are decoded again, each by
  itself: the same settings and seed give the same rounds, and the run that fails then is the faulty one.
- The seconds of a round are its visitor's wait, including time shared with other runs.

Runs on ZeroGPU have their own process and do not use this module (`zero_gpu`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Generator, Hashable, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Literal

from components.server import lazy, turns
from components.server.claims import Claim, Model, Share
from specdec import Round
from specdec.decoding.run import Run
from specdec.pair import ModelPair

if TYPE_CHECKING:
    from specdec.decoding.batch import Batch

THREAD = "rounds"
"""The name of the thread that decodes."""
SWITCH_INTERVAL = 0.0005
"""The longest time in seconds that the decoding thread waits for a Python thread after each of its many small
computations. With Python's default of 5 ms, each update of the page delayed it by several such waits.
"""
STEP = 128
"""Evaluated tokens of a step at most, unless one run alone has more. A larger step would be no faster per
token, and a newcomer waits for the step in progress.
"""
LIGHT = 32
"""The same for the runs of one address while other addresses have runs. A step with 32 more tokens takes
about twice as long, so it delays another visitor no more than taking turns with one other visitor would.
"""
_OF_RUN = 8
"""What a run counts at least, in evaluated tokens, because each run has costs of its own."""

Beginning = Generator[Hashable, None, Run]
"""Creates a run in small steps. A step yields the key of its measurement, or None."""


class Job:
    """One run with a seat. Its rounds are decoded until it is closed, whether or not anyone reads them.

    state: the stage of the run. run: set from "running" on. rounds: the rounds so far. error: why it failed.
    """

    def __init__(self, share: Share, beginning: Beginning):
        self.share = share
        self.state: Literal["beginning", "running", "done", "failed"] = "beginning"
        self.run: Run | None = None
        self.rounds: list[Round] = []
        self.error: BaseException | None = None
        self.closed = False
        self.key: Hashable = None
        self.steps = beginning
        self._begun, self._news, self._ended = (threading.Event() for _ in range(3))

    def beginning(self, every: float) -> Iterator[None]:
        """Yield every `every` seconds until the run has begun. Raises the error that prevents it."""
        while not self._begun.wait(every):
            yield
        if self.run is None and self.error is not None:
            raise self.error

    def batches(self, interval: float) -> Iterator[list[Round]]:
        """Yield lists of new rounds. Each has at least one round and comes `interval` seconds after the
        previous one.

        The first list comes with the first round, the last one as soon as the run ends. An error of the run
        is raised after the rounds before it.
        """
        due, sent, ended = time.monotonic(), 0, False
        while not ended:
            self._news.wait()
            self._ended.wait(due - time.monotonic())
            due = time.monotonic() + interval
            self._news.clear()
            if ended := self._ended.is_set():
                self._news.set()  # the next reader must not wait
            if rounds := self.rounds[sent:]:
                sent += len(rounds)
                yield rounds
        if self.error is not None:
            raise self.error

    def close(self) -> None:
        """Stop decoding the run. The call does not wait for the round in progress."""
        self.closed = True

    def begin(self, run: Run) -> None:
        """Set the run; its rounds follow."""
        self.run, self.state = run, "running"
        self._begun.set()

    def add(self, round: Round) -> None:
        """Store the next round of the run."""
        self.rounds.append(round)
        self._news.set()

    def end(self, error: BaseException | None = None) -> None:
        """Mark the end of the run. error: the reason if it failed."""
        self.error, self.state = error, "failed" if error else "done"
        for event in (self._ended, self._news, self._begun):
            event.set()


class Scheduler(Claim):
    """The jobs of this process. Any thread may submit one. The decoding thread ends with the last job."""

    def __init__(self, model: Model):
        super().__init__(model)
        self._lock = threading.Lock()
        self._submitted: list[Job] = []
        self._is_running = False
        # the scheduling thread alone uses the following attributes
        self._beginning: list[Job] = []
        self._decoding: list[Job] = []
        self._batches: dict[Job, Batch] = {}
        self._open: dict[ModelPair, Batch] = {}
        self._repeating: dict[Job, list[Round]] = {}
        self._paid: dict[str, int] = {}
        self._advanced: Sequence[Job] = ()
        self._last: Batch | None = None
        self._measured: set[Hashable] = set()

    @property
    def shares(self) -> Sequence[Share]:
        """The shares of the jobs that the last step advanced."""
        return [job.share for job in self._advanced]

    def submit(self, share: Share, beginning: Beginning) -> Job:
        """Queue a run for decoding. RuntimeError if the system has no thread left; the next call tries
        again."""
        job = Job(share, beginning)
        with self._lock:
            self._submitted.append(job)
            if not self._is_running:
                try:
                    threading.Thread(target=self._schedule, name=THREAD, daemon=True).start()
                except BaseException:
                    self._submitted.pop()
                    raise
                self._is_running = True
        return job

    def _schedule(self) -> None:
        try:
            for _ in self.turns(self._steps()):
                pass
        except BaseException as error:  # without this, all visitors would wait for ever
            self._fail_all(error)

    def _steps(self) -> Generator[bool | None, None, None]:
        """All work of the thread, one turn of the model at a time."""
        seconds = 0.0
        while self._has_jobs():
            yield from self._begin_jobs(seconds)
            start = time.monotonic()
            chosen = self._chosen()
            for batch in dict.fromkeys(self._batches[job] for job in chosen):
                self._advanced = [job for job in chosen if self._batches.get(job) is batch]
                self._decode(batch)
                yield True
            seconds = time.monotonic() - start

    def _has_jobs(self) -> bool:
        """Take in new jobs and drop closed ones. Returns whether any job is left."""
        with self._lock:
            submitted, self._submitted = self._submitted, []
        self._beginning += submitted
        for job in [job for job in self._beginning if job.closed]:
            self._beginning.remove(job)
            job.steps.close()
            job.end()
        for job in [job for job in self._decoding if job.closed]:
            self._leave(job)
        with self._lock:
            self._is_running = bool(self._beginning or self._decoding or self._submitted)
            if not self._is_running:
                self._advanced = ()
                self._measured.clear()
            return self._is_running

    # ------------------------------------------------------------ beginning

    def _begin_jobs(self, seconds: float) -> Generator[None, None, None]:
        """Begin the jobs that need no measurement, then measure for about this many seconds."""
        end = time.monotonic() + seconds
        while job := self._next_to_begin():
            measures = job.key is not None
            self._advanced = (job,)
            self._advance(job)
            yield
            if measures and job in self._beginning and time.monotonic() >= end:
                return

    def _next_to_begin(self) -> Job | None:
        """The next job to begin: one without a measurement, otherwise the first job of a key, chosen by
        address."""
        firsts: dict[Hashable, Job] = {}
        for job in self._beginning:
            if job.key is None or job.key in self._measured:
                return job
            firsts.setdefault(job.key, job)
        return min(firsts.values(), key=lambda job: self._model.used_by(job.share), default=None)

    def _advance(self, job: Job) -> None:
        """Do a job's next step towards its run. When the run exists, it joins its batch."""
        self._last = None  # the step may have set torch's threads for another pair
        try:
            job.key = next(job.steps) or job.key or job
            self._measured.discard(job.key)
        except StopIteration as made:
            self._measured.add(job.key)
            self._beginning.remove(job)
            job.begin(made.value)
            self._join(job, made.value)
        except BaseException as error:
            self._beginning.remove(job)
            job.end(error)

    # ------------------------------------------------------------ decoding

    def _join(self, job: Job, run: Run, batch: Batch | None = None) -> None:
        if batch is None:
            if run.pair not in self._open:
                self._open[run.pair] = _new_batch(run.pair)
            batch = self._open[run.pair]
        try:
            batch.add(run)
        except Exception as error:
            self._close_if_empty(batch)
            job.end(error)
        else:
            self._batches[job] = batch
            self._decoding.append(job)

    def _leave(self, job: Job, error: BaseException | None = None) -> None:
        """Remove an ended job from its batch."""
        self._decoding.remove(job)
        batch = self._batches.pop(job)
        self._repeating.pop(job, None)
        if job.run is not None and job.run in batch:
            batch.remove(job.run)
        self._close_if_empty(batch)
        job.end(error)

    def _close_if_empty(self, batch: Batch) -> None:
        if not batch:
            self._close(batch)

    def _close(self, batch: Batch) -> None:
        """Close this batch to new runs and forget its pair, which may have been exchanged."""
        if self._open.get(batch.pair) is batch:
            del self._open[batch.pair]
        if self._last is batch:
            self._last = None

    def _chosen(self) -> list[Job]:
        """The jobs of the next step: those of each address that have waited longest.

        Addresses pay for a step by its tokens, at least `LIGHT`. An address that has paid more than another
        one, by `LIGHT` or more, waits.
        """
        jobs: dict[str, list[Job]] = {}
        for job in self._decoding:
            jobs.setdefault(job.share.visitor.address, []).append(job)
        least = min((self._paid[address] for address in jobs if address in self._paid), default=0)
        self._paid = {address: self._paid.get(address, least) for address in jobs}
        chosen: list[Job] = []
        for address, own in jobs.items():
            if self._paid[address] < least + LIGHT:
                first = _first(own, STEP if len(jobs) < 2 else LIGHT)
                self._paid[address] += max(LIGHT, sum(map(_size, first)))
                chosen += first
        self._decoding = [job for job in self._decoding if job not in chosen] + chosen
        return chosen

    def _decode(self, batch: Batch) -> None:
        """Do one step of a batch for the chosen jobs."""
        if batch is not self._last:
            lazy.use_threads(batch.pair)
            self._last = batch
        jobs = {job.run: job for job in self._advanced if job.run is not None}
        try:
            progress = batch.step(jobs)
        except Exception as error:
            self._decode_apart(batch, error)
            return
        for each in progress:
            job, failure = jobs[each.run], each.error
            if each.round is not None and not self._take(job, each.round):
                failure = RuntimeError("a run that was decoded again gave another text")
            if each.ended or failure is not None:
                self._leave(job, failure)

    def _take(self, job: Job, round: Round) -> bool:
        """Give a job its next round. Returns whether a round that the job already has is unchanged."""
        if not (known := self._repeating.get(job)):
            job.add(round)
            return True
        return [token.id for token in known.pop(0).tokens] == [token.id for token in round.tokens]

    def _decode_apart(self, batch: Batch, error: Exception) -> None:
        """Decode the jobs of a batch again, each in its own batch, to find the job that fails."""
        jobs = [job for job in self._decoding if self._batches[job] is batch]
        if len(jobs) == 1:
            self._leave(jobs[0], error)
            return
        logging.error("a step of %d runs failed; each goes on by itself", len(jobs), exc_info=error)
        self._close(batch)
        for job in jobs:
            self._decoding.remove(job)
            assert job.run is not None, "a job in a batch has a run"
            run, job.run = job.run, _same_run(job.run)
            # the failed step may have recorded a round that the job never received
            self._repeating[job] = run.rounds[: len(job.rounds)]
            self._join(job, job.run, _new_batch(run.pair))

    def _fail_all(self, error: BaseException) -> None:
        with self._lock:
            self._is_running = False
            submitted, self._submitted = self._submitted, []
        jobs = submitted + self._beginning + self._decoding
        self._beginning, self._decoding, self._advanced, self._last = [], [], (), None
        for table in (self._batches, self._open, self._repeating, self._measured):
            table.clear()
        for job in jobs:
            job.end(error)


def _first(jobs: Sequence[Job], room: int) -> list[Job]:
    """The first jobs that have room in a step, at least one."""
    fitting = sum(size <= room for size in accumulate(map(_size, jobs)))
    return list(jobs[: max(1, fitting)])


def _size(job: Job) -> int:
    """Tokens that the target evaluates in a round of this job, or the least that a run counts."""
    return _OF_RUN if job.run is None else max(_OF_RUN, 1 + job.run.topology.num_draft_tokens)


def _same_run(run: Run) -> Run:
    """A new copy of the run that starts from its beginning."""
    return Run(run.pair, run.prompt_ids, run.settings._replace(seed=run.seed), run.topology)


def _new_batch(pair: ModelPair) -> Batch:
    from specdec.decoding.batch import Batch  # imports transformers, for which the page must not wait

    return Batch(pair)


RUNS = Scheduler(turns.MODEL.model)
"""The scheduler of the page's runs."""
