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
        self._measured_pair: ModelPair | None = None
        self._job: Job | None = None
        self._last_request = self._start = 0.0
        self._num_rounds = 0

    def ask(self, pair: ModelPair) -> SetUp | None:
        """The measured set-up of `pair` for ERSD at temperature 1. The first call begins to measure;
        the result is None until the measurement ends. ValueError if measuring is not possible."""
        with self._lock:
            self._last_request = time.monotonic()
            if self._job is None or self._measured_pair is not pair:
                self._measured_pair, owner = pair, Owner(addresses.asking.get())
                self._job = self._queue.submit(owner, self._steps(pair))
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
            job, pair = self._job, self._measured_pair
        is_done = job is not None and job.ended and job.result is not None
        return is_done and lazy.is_loaded(self.pair) and lazy.present(self.pair) is pair

    @property
    def progress(self) -> dict[str, float]:
        """The progress of the current measurement: the share that is done, and about how many seconds are
        left."""
        share = min(max(self._num_rounds, 1) / _TYPICAL, 0.95)
        seconds = time.monotonic() - self._start if self._num_rounds else 0.0
        return {"share": share, "left": seconds * (1 / share - 1)}

    def _steps(self, pair: ModelPair) -> Steps[SetUp | None]:
        """The steps of the measurement.

        They end early, with the result None, if nobody waits for them any more.
        """
        lazy.use_threads(pair)
        self._start, self._num_rounds = time.monotonic(), 0
        steps = measuring(pair, RunSettings("ersd", max_new_tokens=1))
        try:
            while time.monotonic() - self._last_request < PATIENCE and lazy.present(self.pair) is pair:
                next(steps)
                self._num_rounds += 1
                yield
        except StopIteration as end:
            return end.value
        finally:
            steps.close()
        return None
