"""Statistics of decoded rounds: acceptance and block efficiency, with their intervals.

Rounds of several runs are counted together. The paper estimates acceptance by index from sequence and batch
runs: `acceptance_by_index([*sequence_rounds, *batch_rounds])`.

The rounds of one text depend on each other, and so may the texts of one prompt. Prompts are independent. A
ratio of sums over prompts, such as tokens / target calls, is linearised: each prompt has an influence on the
ratio, and the ratio's variance is the variance of the sum of influences. The influences on the difference of
two ratios over the same prompts are the differences of their influences, so that small differences become
visible.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from specdec.topology import Path, Topology
from specdec.trace import Round

Z = 1.96
"""Standard errors of a 95% interval, for 30 prompts or more."""


class _Rate:
    accepted: int
    offered: int

    @property
    def rate(self) -> float:
        """accepted / offered; NaN if nothing was offered."""
        return self.accepted / self.offered if self.offered else math.nan


@dataclass(frozen=True)
class IndexAcceptance(_Rate):
    """How often the child with one index was accepted.

    offered: number of verified nodes with such a child. accepted: number of nodes that accepted it. Hence
    accepted / offered estimates R(index), whatever happened at smaller indices.
    """

    child_index: int
    accepted: int
    offered: int

    def interval(self, z: float = Z) -> tuple[float, float]:
        """Wilson's score interval of the rate, 95% by default; (0, 1) if nothing was offered.

        It assumes independent nodes; those of one text are nearly independent.
        """
        if not self.offered:
            return 0.0, 1.0
        n, rate = self.offered, self.rate
        centre = (rate + z * z / (2 * n)) / (1 + z * z / n)
        half = z / (1 + z * z / n) * math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n))
        # at 0 and 1 the bound is exact, and rounding must not push it past the rate
        return max(0.0, min(centre - half, rate)), min(1.0, max(centre + half, rate))


def acceptance_by_index(rounds: Iterable[Round]) -> list[IndexAcceptance]:
    """Acceptance by child index over all verified nodes, from index 0 to the largest that was offered."""
    offered, accepted = Counter[int](), Counter[int]()
    for round in rounds:
        for _, taken, children in round.verified():
            offered.update(range(children))
            accepted.update(() if taken is None else (taken,))
    return [IndexAcceptance(index, accepted[index], offered[index]) for index in sorted(offered)]


class IndexCounts(NamedTuple):
    """Counts by child index, over verified nodes.

    offered: nodes that drafted this child. reached: nodes whose tree has this child and that accepted none
    before it. accepted: nodes that accepted it.
    """

    offered: list[int]
    reached: list[int]
    accepted: list[int]


def index_counts(rounds: Iterable[Round], topology: Topology) -> IndexCounts:
    """Counts by child index for rounds on this tree, which may be cut near the end of a text.

    If q has too few tokens for a child of the tree, as with top-p, its parent counts as a node that reached
    this child and did not accept it. So a child that is rarely offered does not get too high a rate.
    """
    wanted: dict[Path, int] = {(): len(topology.children[0])}
    wanted |= {path: len(topology.children[row]) for row, path in enumerate(topology.paths, start=1)}
    offered, reached, accepted = Counter[int](), Counter[int](), Counter[int]()
    for round in rounds:
        for parent, taken, children in round.verified():
            offered.update(range(children))
            reached.update(range(wanted[parent] if taken is None else taken + 1))
            accepted.update(() if taken is None else (taken,))
    size = max(reached, default=-1) + 1
    return IndexCounts(*([count[index] for index in range(size)] for count in (offered, reached, accepted)))


def acceptance_vector(accepted: Sequence[int], reached: Sequence[int]) -> np.ndarray:
    """R by child index from counts of nodes that `reached` each child and of those that `accepted` it.

    R(i) is the probability of rejecting all earlier children times the probability of accepting this one. So
    R sums to at most one, even if some indices were counted on other trees or more often than others. Plain
    quotients accepted / offered may sum to more. R may increase at some index, by chance or truly.
    """
    rates, passed = [], 1.0
    for taken, count in zip(accepted, reached, strict=True):
        chance = taken / count if count else 0.0
        rates.append(passed * chance)
        passed *= 1 - chance
    return np.array(rates)


@dataclass(frozen=True)
class Estimate:
    """A value, and the influence of each prompt on it, by the prompt's number."""

    value: float
    influence: Mapping[int, float]

    @property
    def standard_error(self) -> float:
        """The standard error; NaN for a single prompt."""
        n = len(self.influence)
        squares = math.fsum(x * x for x in self.influence.values())
        return math.sqrt(squares * n / (n - 1)) if n > 1 else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """The ends of the 95% interval."""
        half = Z * self.standard_error
        return self.value - half, self.value + half

    def to_json(self) -> dict[str, float | None]:
        """The value and the ends of its interval (`low`, `high`), which are None for a single prompt."""
        low, high = self.interval if len(self.influence) > 1 else (None, None)
        return {"value": self.value, "low": low, "high": high}

    def __sub__(self, other: Estimate) -> Estimate:
        return combined([self, other], [1.0, -1.0])


def ratio(parts: Mapping[int, tuple[float, float]]) -> Estimate | None:
    """Σ numerators / Σ denominators, from a (numerator, denominator) for each prompt.

    None if the denominators sum to 0.
    """
    total = math.fsum(below for _, below in parts.values())
    if not total:
        return None
    value = math.fsum(above for above, _ in parts.values()) / total
    return Estimate(value, {key: (above - value * below) / total for key, (above, below) in parts.items()})


def combined(estimates: Sequence[Estimate], weights: Sequence[float]) -> Estimate:
    """Σ weight · estimate. The interval takes the dependence of the estimates into account."""
    value = math.fsum(w * e.value for w, e in zip(weights, estimates, strict=True))
    prompts = sorted({prompt for e in estimates for prompt in e.influence})
    influence = {
        prompt: math.fsum(w * e.influence.get(prompt, 0.0) for w, e in zip(weights, estimates, strict=True))
        for prompt in prompts
    }
    return Estimate(value, influence)


def mean(estimates: Sequence[Estimate]) -> Estimate:
    """The mean of estimates, as an estimate."""
    return combined(estimates, [1 / len(estimates)] * len(estimates))


def estimate_block_efficiency(runs: Iterable[Iterable[Round]]) -> Estimate:
    """Tokens per target call of several independent runs, each given as the rounds of one text.

    To treat the rounds of one long run as independent, pass each as a run of its own: `([round] for round in
    rounds)`. ValueError without rounds.
    """
    counts = [[len(round.tokens) for round in run] for run in runs]
    estimate = ratio({number: (sum(run), len(run)) for number, run in enumerate(counts)})
    if estimate is None:
        raise ValueError("no rounds: block efficiency needs at least one target call")
    return estimate
