"""Measures what drafting costs and gains on this server: once for all visitors, as a job beside the runs.

The queue charges the measurement to the address of the visitor who asks first. No request waits for the
measurement; the page repeats its request every second. The measurement ends when `PATIENCE` seconds have
passed without a request, or when the server has another pair.
"""

from __future__ import annotations

import threading
import time

from components.runs import lazy
from components.runs.jobs import Job, Owner
from components.runs.queue import QUEUE, Queue
from components.visitors import addresses
from specdec.decoding.acceptance import Steps
from specdec.pair import ModelPair, Pair
from specdec.payoff.measuring import measuring
from specdec.payoff.setups import SetUp
from specdec.settings import RunSettings

PATIENCE = 5.0
"""The measurement ends after this many seconds without a request."""
_TYPICAL = 290
"""A measurement has about this many steps, from which its progress is computed."""


class Measurement:
    """The measurement of the pair that is in use. queue: the queue that does its steps."""

    def __init__(self, pair: Pair, queue: Queue = QUEUE):
        self.pair, self._queue = pair, queue
        self._lock = threading.Lock()
        self._measured: ModelPair | None = None
        self._job: Job | None = None
        self._asked = self._begun = 0.0
        self._done = 0

    def ask(self, here: ModelPair) -> SetUp | None:
        """The measured set-up of the pair `here` for ERSD at temperature 1. The first call begins to measure;
        the result is None until the measurement ends. ValueError if measuring is not possible."""
        with self._lock:
            self._asked = time.monotonic()
            if self._job is None or self._measured is not here:
                self._measured, owner = here, Owner(addresses.asking.get())
                self._job = self._queue.submit(owner, self._steps(here))
            job = self._job
        if not job.ended:
            return None
        with self._lock:
            if self._job is job and job.result is None:  # the measurement failed, or nobody waited for it
                self._job = None
        return job.wait()

    @property
    def is_known(self) -> bool:
        """Whether the current pair was measured, so that `ask` has an answer at once."""
        with self._lock:
            job, measured = self._job, self._measured
        is_done = job is not None and job.ended and job.result is not None
        return is_done and lazy.is_loaded(self.pair) and lazy.present(self.pair) is measured

    @property
    def progress(self) -> dict[str, float]:
        """The progress of the current measurement: the share that is done, and about how many seconds are
        left."""
        share = min(max(self._done, 1) / _TYPICAL, 0.95)
        seconds = time.monotonic() - self._begun if self._done else 0.0
        return {"share": share, "left": seconds * (1 / share - 1)}

    def _steps(self, here: ModelPair) -> Steps[SetUp | None]:
        """The steps of the measurement.

        They end early, with the result None, if nobody waits for them any more.
        """
        lazy.use_threads(here)
        self._begun, self._done = time.monotonic(), 0
        steps = measuring(here, RunSettings("ersd", max_new_tokens=1))
        try:
            while time.monotonic() - self._asked < PATIENCE and lazy.present(self.pair) is here:
                next(steps)
                self._done += 1
                yield
        except StopIteration as end:
            return end.value
        finally:
            steps.close()
        return None
