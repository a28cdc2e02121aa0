"""The cost of a round on this machine: forwards of one text or of many at once, timed in small steps."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Generator, Mapping, Sequence
from dataclasses import astuple, dataclass
from itertools import accumulate
from typing import TypeVar

import numpy as np
import torch

from specdec.devices import one_thread
from specdec.models import Model, Session
from specdec.models.requests import Request

_PREFIX = 32
"""Cached tokens while forwards are timed."""
REPEATS, IN_A_ROW = 8, 8
"""Repetitions of each timing, half as many for many texts, and forwards of one size in a row. Decoding
repeats a size too, and a small model then finds its weights in the processor's cache."""
_ROW_SECONDS = 0.01
"""Seconds after which no further forward of a size is timed in a row."""

_T = TypeVar("_T")
Steps = Generator[None, None, _T]
"""Work that stops after each small step and returns its result at its end."""


class ForwardCost:
    """Seconds of a cached forward over n tokens, measured at a few n, linear in between and beyond.

    They never fall with n: where they seem to, the machine was busy at that moment.
    """

    def __init__(self, seconds_by_count: Mapping[int, Sequence[float]]):
        self._counts = sorted(seconds_by_count)
        lowest = [undisturbed(seconds_by_count[n]) for n in self._counts]
        self._seconds = list(accumulate(lowest, max))

    @property
    def table(self) -> dict[int, float]:
        """The measured numbers of tokens and their seconds."""
        return dict(zip(self._counts, self._seconds, strict=True))

    def seconds(self, count: float) -> float:
        """Seconds of a forward over this many tokens."""
        counts, seconds = self._counts, self._seconds
        if len(counts) == 1 or count <= counts[0]:
            return seconds[0]
        right = min(bisect_left(counts, count), len(counts) - 1)
        share = (count - counts[right - 1]) / (counts[right] - counts[right - 1])
        return seconds[right - 1] + share * (seconds[right] - seconds[right - 1])


class JointCost:
    """Seconds of one forward over rows of several texts, linear between the measured numbers of texts.

    by_texts: for each measured number of texts, the cost of a forward over n rows of each of them.
    """

    def __init__(self, by_texts: Mapping[int, ForwardCost]):
        self._texts = sorted(by_texts)
        self._costs = dict(by_texts)
        self._known: dict[tuple[int, float], float] = {}

    @property
    def tables(self) -> dict[int, dict[int, float]]:
        """For each measured number of texts, the rows of each of them and the seconds."""
        return {texts: self._costs[texts].table for texts in self._texts}

    def seconds(self, texts: int, rows: float) -> float:
        """Seconds of a forward over this many rows of this many texts; 0 without a text."""
        if texts == 0:
            return 0.0
        known = self._known.get((texts, rows))
        if known is None:
            known = self._known[texts, rows] = self._seconds(texts, rows - texts)
        return known

    def _seconds(self, texts: int, more: float) -> float:
        """more: the number of rows beyond one of each text."""
        if len(self._texts) == 1:
            return self._costs[self._texts[0]].seconds((texts + more) / self._texts[0])
        right = min(max(bisect_left(self._texts, texts), 1), len(self._texts) - 1)
        before, after = self._texts[right - 1 : right + 1]
        low, high = (self._costs[number].seconds(1 + more / number) for number in (before, after))
        return low + (texts - before) / (after - before) * (high - low)


@dataclass(frozen=True)
class Overhead:
    """Seconds of a round outside the forwards, for each of the texts that are decoded together.

    empty: of a round without drafts. drafting: what the first drafted token adds to it, and node: each
    further token. level: of racing and choosing at each level of the tree.
    """

    empty: float
    drafting: float
    node: float
    level: float


@dataclass(frozen=True)
class RoundCost:
    """Seconds of a round of several texts, whose target forward and whose draft forwards are shared.

    overheads: by one or two numbers of texts. most_repeated: the most accepted tokens that the target reads
    again after a rejection.
    """

    target: JointCost
    draft: JointCost
    overheads: Mapping[int, Overhead]
    most_repeated: int = 0

    def overhead(self, texts: int) -> Overhead:
        """Of each of this many texts. That of all texts together grows linearly with their number."""
        fewest, most = min(self.overheads), max(self.overheads)
        if fewest == most:
            return self.overheads[most]
        share = (texts - fewest) / (most - fewest)
        ends = zip(astuple(self.overheads[fewest]), astuple(self.overheads[most]), strict=True)
        together = ((fewest * low, most * high) for low, high in ends)
        return Overhead(*(max(a + share * (b - a), min(a, b)) / texts for a, b in together))


def forward_costs(models: Sequence[Model], most: int, at_once: int = 1) -> Steps[list[ForwardCost]]:
    """The costs of each model, up to `most` tokens of each of `at_once` texts.

    All sizes take turns, so that a busy moment of the machine falls on all of them alike.
    """
    counts = sorted({min(count, most) for count in (1, 2, 3, 5, 9, 17, most)})
    sessions = [[_prefilled(model, most) for _ in range(at_once)] for model in models]
    seconds: list[dict[int, list[float]]] = [{count: [] for count in counts} for _ in models]
    for _ in range(REPEATS if at_once == 1 else -(-REPEATS // 2)):
        for model, its_sessions, its_seconds in zip(models, sessions, seconds, strict=True):
            for count in counts:
                its_seconds[count] += _in_a_row(its_sessions, model.device, count)
        yield
    return [ForwardCost(by_count) for by_count in seconds]


def _prefilled(model: Model, count: int) -> Session:
    """A session with some text, and room for `count` tokens after it."""
    session = model.session()
    if prefix := min(_PREFIX, model.context_length - count):
        session.prefill([0] * prefix)
    return session


def _in_a_row(sessions: Sequence[Session], device: torch.device, count: int) -> list[float]:
    seconds: list[float] = []
    while len(seconds) < IN_A_ROW and sum(seconds) < _ROW_SECONDS:
        seconds.append(_forward_seconds(sessions, device, count))
    return seconds


@torch.inference_mode()
@one_thread()
def _forward_seconds(sessions: Sequence[Session], device: torch.device, count: int) -> float:
    tokens = torch.zeros(count, dtype=torch.int64, device=device)
    requests = [Request(session, tokens, range(-1, count - 1)) for session in sessions]
    start = time.perf_counter()
    answer: torch.Tensor | Exception | None
    if len(requests) == 1:
        answer = requests[0].answer()
    else:
        from specdec.models.batching import answers  # late, because it waits for transformers

        answer = answers(requests)[-1]
    if isinstance(answer, Exception):
        raise answer
    assert answer is not None
    answer[-1, 0].item()  # waits for a GPU
    seconds = time.perf_counter() - start
    for session in sessions:
        session.commit(())
    return seconds


def undisturbed(seconds: Sequence[float]) -> float:
    """The lower quartile of the times, because other work on the machine only adds to them."""
    return float(np.quantile(seconds, 0.25))
