"""The cost of a round on this machine: forwards of one run or of many at once, timed in small steps."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import torch

from specdec.models import Model, Session
from specdec.models.requests import Request
from specdec.topology import Topology

_PREFIX = 32
"""Cached tokens while forwards are timed."""
REPEATS = 12
"""Repetitions of each timing; forwards of many runs are timed a third as often."""

_T = TypeVar("_T")
Steps = Generator[None, None, _T]
"""Work that stops after each small step and returns its result at its end."""


class ForwardCost:
    """Seconds of a cached forward over n tokens, measured at a few n, linear in between.

    They never fall with n: where they seem to, the machine was busy at that moment.
    """

    def __init__(self, seconds_by_count: Mapping[int, Sequence[float]]):
        self._counts = sorted(seconds_by_count)
        self._seconds = np.maximum.accumulate([undisturbed(seconds_by_count[n]) for n in self._counts])

    def seconds(self, count: float) -> float:
        """Seconds of a forward over this many tokens."""
        return float(np.interp(count, self._counts, self._seconds))


@dataclass(frozen=True)
class RoundCost:
    """Seconds of a round of `runs` runs by topology.

    target, draft: the models' forwards over n tokens of each run. level, rest: seconds outside the forwards
    for each run, for each level of its tree and for the rest of the round.
    """

    target: ForwardCost
    draft: ForwardCost
    rest: float
    level: float = 0.0
    runs: int = 1

    @classmethod
    def of(cls, draft: float, rest: float, forwards: Sequence[ForwardCost], tree: Topology) -> RoundCost:
        """The cost of a run's round, from its seconds for drafting and for the rest on this tree."""
        of_target, of_draft = forwards
        cost = cls(of_target, of_draft, rest)
        # drafting costs more than the draft's forwards: racing and choosing, about the same at each level
        return replace(cost, level=max(draft - cost._draft_forwards(tree), 0) / tree.depth)

    def together(self, forwards: Sequence[ForwardCost], runs: int) -> RoundCost:
        """The cost of a round of this many runs at once. forwards: the costs of their common forwards."""
        target, draft = forwards
        return replace(self, target=target, draft=draft, runs=runs)

    def seconds(self, topology: Topology, repeated: float = 0.0) -> float:
        """Seconds of a round of all runs on this tree, in which the target reads some tokens again."""
        ours = self.level * topology.depth + self.rest
        forwards = self._draft_forwards(topology) + self.target.seconds(
            1 + topology.num_draft_tokens + repeated
        )
        return forwards + self.runs * ours

    def _draft_forwards(self, topology: Topology) -> float:
        inner = [sum(bool(topology.children[row]) for row in level) for level in topology.levels]
        return sum(self.draft.seconds(count) for count in inner if count)


def forward_costs(models: Sequence[Model], most: int, at_once: int = 1) -> Steps[list[ForwardCost]]:
    """The costs of each model, up to `most` tokens of each of `at_once` runs.

    All sizes take turns, so that a busy moment of the machine falls on all of them alike.
    """
    counts = sorted({min(count, most) for count in (1, 2, 3, 5, 9, 17, most)})
    sessions = [[_prefilled(model, most) for _ in range(at_once)] for model in models]
    seconds: list[dict[int, list[float]]] = [{count: [] for count in counts} for _ in models]
    for _ in range(REPEATS if at_once == 1 else -(-REPEATS // 3)):
        for model, its_sessions, its_seconds in zip(models, sessions, seconds, strict=True):
            for count in counts:
                its_seconds[count].append(_forward_seconds(its_sessions, model.device, count))
        yield
    return [ForwardCost(by_count) for by_count in seconds]


def _prefilled(model: Model, count: int) -> Session:
    """A session with some text, and room for `count` tokens after it."""
    session = model.session()
    if prefix := min(_PREFIX, model.context_length - count):
        session.prefill([0] * prefix)
    return session


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
