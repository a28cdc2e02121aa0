"""Statistics of decoded rounds: acceptance by child index, with its intervals.

Rounds of several runs are counted together. The paper estimates acceptance by index from runs on two trees,
sequence(k) and batch(k): `acceptance_by_index([*sequence_rounds, *batch_rounds])`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from specdec.topology import Path, Topology
from specdec.trace import Round
from specdec.trace.acceptance import counted

Z = 1.96
"""The half width of a 95% interval in standard errors. For means of fewer than 30 prompts it is too small."""


@dataclass(frozen=True)
class IndexAcceptance:
    """How often the child with one index was accepted.

    offered: number of verified nodes with such a child, whether or not they accepted an earlier one.
    accepted: number of nodes that accepted it. So accepted / offered estimates R(index).
    """

    child_index: int
    accepted: int
    offered: int

    @property
    def rate(self) -> float:
        """accepted / offered; NaN if nothing was offered."""
        return self.accepted / self.offered if self.offered else math.nan

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
    offered, accepted = counted(rounds)
    return [IndexAcceptance(index, accepted[index], offered[index]) for index in sorted(offered)]


class IndexCounts(NamedTuple):
    """Counts of verified nodes by child index.

    offered: nodes that drafted the child with this index. reached: nodes to which the tree gives this child
    and that accepted no earlier one. accepted: nodes that accepted it.
    """

    offered: list[int]
    reached: list[int]
    accepted: list[int]


def index_counts(rounds: Iterable[Round], topology: Topology) -> IndexCounts:
    """Counts by child index for rounds on this tree, which may be cut near the end of a text.

    If q has too few tokens for a child of the tree, as with top-p, its parent counts as a node that reached
    this child and did not accept it. So a child that is rarely offered does not get too high a rate.
    """
    num_children: dict[Path, int] = {(): len(topology.children[0])}
    num_children |= {path: len(topology.children[row]) for row, path in enumerate(topology.paths, start=1)}
    offered, reached, accepted = Counter[int](), Counter[int](), Counter[int]()
    for round in rounds:
        for parent, accepted_index, children in round.verified():
            offered.update(range(children))
            reached.update(range(num_children[parent] if accepted_index is None else accepted_index + 1))
            accepted.update(() if accepted_index is None else (accepted_index,))
    size = max(reached, default=-1) + 1
    return IndexCounts(*([count[index] for index in range(size)] for count in (offered, reached, accepted)))


def acceptance_vector(accepted: Sequence[int], reached: Sequence[int]) -> np.ndarray:
    """R by child index from counts of nodes that `reached` each child and of those that `accepted` it.

    R(i) is the probability that all earlier children are rejected, times the rate at which child i is
    accepted then. So R sums to at most one, even if some indices were counted on other trees or more often
    than others. Plain quotients accepted / offered may sum to more. R may increase at some index, by chance
    or truly.
    """
    rates, survival = [], 1.0
    for successes, count in zip(accepted, reached, strict=True):
        chance = successes / count if count else 0.0
        rates.append(survival * chance)
        survival *= 1 - chance
    return np.array(rates)
