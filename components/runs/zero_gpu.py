"""Hugging Face's ZeroGPU: a GPU that is lent to this Space for as long as a run takes.

The models are moved to `cuda` before the page is launched. No GPU is used yet: only their device is recorded.
Each run is then a generator under `spaces.GPU`: it runs in a forked process that has the GPU. Its arguments
and results are pickled. The quota is checked against the seconds that a run requests, not against the seconds
that it uses. So each run requests few.

    this process        BorrowedRun  <--- Beginning, Round, Round, ..., Ending ---  Lender._work   the GPU's
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import gradio as gr

import specdec
from components.page.settings import VisitorSettings
from components.runs import known_pairs, topologies
from components.visitors import limits
from specdec.decoding.acceptance import measured_as
from specdec.decoding.run import Run
from specdec.pair import Pair

DEFAULT = "qwen3-8b"
"""The pair of `known_pairs` that a Space without `SPECDEC_TARGET` loads."""
LEAST, MOST = 10, 20
"""The fewest and the most seconds of GPU that a run requests. If acceptance must be measured, `_TRIAL`
seconds are added."""
_BEGIN, _PER_TOKEN, _TRIAL = 4, 0.1, 15
"""Seconds for moving the models, for each token, and for a measurement of acceptance. They are safe guesses
for 8 B parameters in bfloat16, not measured on ZeroGPU.
"""


Start = Callable[..., Run]
"""The type of a function that begins a run in the process that calls it. It takes pair, settings, detail and
prompt_ids, as `components.runs.run.start` does."""


def here(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether this is a Space on ZeroGPU."""
    return environment.get("SPACES_ZERO_GPU", "").lower() in ("1", "t", "true")


def load(target: str | None, draft: str | None, dtype: str, start: Start) -> Pair:
    """Load the target and draft model with these hub ids, or `DEFAULT`, for the GPU. If that fails, load the
    story models that ship with the page, on the CPU.

    Call this before the page is built. It limits the length of runs, so that each ends within `MOST` seconds.
    """
    if target is None:
        target, draft = known_pairs.BY_NAME[DEFAULT].hub_ids

    try:
        # the self-check runs on the CPU because this process has no GPU
        pair = specdec.load_pair(target, draft, device="cpu", dtype=dtype)
    except ValueError as error:
        logging.warning("the embedded pair is used instead: %s", error)
        return embedded()
    for model in (pair.target, pair.draft):
        if model is not None and hasattr(model, "to"):
            model.to("cuda")
    most = limits.current()
    limits.use(replace(most, new_tokens=min(most.new_tokens, int((MOST - _BEGIN) / _PER_TOKEN))))
    return Lender(pair, start)


@lru_cache(maxsize=1)
def embedded() -> Pair:
    """The story models of this package on the CPU, where they need no part of a visitor's GPU quota."""
    return specdec.load_pair("stories", device="cpu")


class NoGpuError(ValueError):
    """No GPU is available for this run. The message is for the visitor."""


class Beginning(NamedTuple):
    """The first message of the other process: what is known about a run before its first round."""

    topology: Any
    prompt_ids: tuple[int, ...]
    seed: int
    choice: Any


class Refusal(NamedTuple):
    """The message of the other process that a run cannot begin because of the visitor's settings."""

    message: str


class Ending(NamedTuple):
    """The last message of the other process: what is known after the last round, and the measurements that
    the pair made in that process."""

    prefill_seconds: float
    trees: tuple[Any, ...]
    measurements: dict[Any, Any]
    learned: dict[str, Any]


class Lender:
    """A pair that borrows a GPU for each of its runs.

    All attributes that it does not define are those of the original pair.
    """

    def __init__(self, pair: Pair, start: Start):
        import spaces

        self.pair = pair
        self._start = start
        self._borrowed = spaces.GPU(self._work, duration=self.seconds)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.pair, name)

    def start(self, settings: VisitorSettings, *details: Any) -> BorrowedRun:
        """Begin a run. `NoGpuError` if no GPU is available."""
        return BorrowedRun(self, self._borrowed(settings, *details))

    def seconds(self, settings: VisitorSettings, *_: Any) -> int:
        """The seconds of GPU to request. They grow with the number of tokens, and include a measurement of
        acceptance if the run needs one."""
        trial = _TRIAL if self._has_to_measure(settings) else 0
        seconds = _BEGIN + settings.max_new_tokens * _PER_TOKEN
        return trial + min(MOST, max(LEAST, round(seconds)))

    def _has_to_measure(self, settings: VisitorSettings) -> bool:
        is_measured = any(key[0] == measured_as(settings.method) for key in self.pair.measurements)
        return topologies.has_to_measure(settings) and not is_measured

    def _work(self, settings: VisitorSettings, *details: Any) -> Iterator[Any]:
        """Decode a whole run in the process that has the GPU."""
        try:
            run = self._start(self.pair, settings, *details)
        except ValueError as error:  # only Gradio's own errors keep their message
            yield Refusal(str(error))
            return
        with closing(run):
            yield Beginning(run.topology, run.prompt_ids, run.seed, run.choice)
            yield from run
            yield Ending(run.prefill_seconds, run.trees, self.pair.measurements, self.pair.learned)


class BorrowedRun(Iterator[specdec.Round]):
    """A run that another process decodes.

    It yields the rounds and has the attributes of `specdec.decoding.run.Run`.
    """

    prefill_seconds = 0.0
    trees: tuple[Any, ...] = ()  # known only at the end

    def __init__(self, lender: Lender, updates: Generator[Any, None, None]):
        self.pair, self._updates = lender, updates
        first = self._next()
        if isinstance(first, Refusal):
            raise ValueError(first.message)
        self.topology, self.prompt_ids, self.seed, self.choice = first

    def __next__(self) -> specdec.Round:
        update = self._next()
        if not isinstance(update, Ending):
            return update
        self.prefill_seconds, self.trees = update.prefill_seconds, update.trees
        self.pair.measurements.update(update.measurements)
        self.pair.learned.update(update.learned)
        raise StopIteration

    def close(self) -> None:
        """Give the GPU back, even before the end."""
        self._updates.close()

    def _next(self) -> Any:
        try:
            return next(self._updates)
        except gr.Error as error:
            raise _in_words(error) from None


class BorrowedJob:
    """A borrowed run with the methods of `jobs.Job` that readers use. It has no state, because no queue
    advances it: the other process continues while the rounds are read."""

    def __init__(self, run: BorrowedRun):
        self.run = run

    def beginning(self, every: float) -> Iterator[None]:  # noqa: ARG002
        """Yields nothing, because the run has already begun."""
        return iter(())

    def batches(self, interval: float) -> Iterator[list[specdec.Round]]:
        """Yield lists of rounds, `interval` seconds apart. If the run fails, the rounds before its error are
        yielded first."""
        batch: list[specdec.Round] = []
        due = time.monotonic()
        try:
            for round in self.run:
                batch.append(round)
                if time.monotonic() >= due:
                    yield batch
                    batch, due = [], time.monotonic() + interval
        except Exception:
            if batch:
                yield batch
            raise
        if batch:
            yield batch

    def close(self) -> None:
        """End the run and give the GPU back."""
        self.run.close()


def _in_words(error: gr.Error) -> ValueError:
    """The error for the visitor in place of an error of `spaces`, whose title says its kind."""
    title, message = getattr(error, "title", ""), str(error.message).strip()
    if "quota" in title or "credits" in title or "duration" in title:
        return NoGpuError(f"Your time on the shared GPU is used up for now. {message}")
    if "queue" in title or "client" in title:
        return NoGpuError(f"The shared GPU is not free. {message}")
    logging.error("a run failed on the GPU: %s: %s", title, message)
    return ValueError(
        "The shared GPU stopped the run, most likely because its time was over. Ask for fewer tokens"
    )
