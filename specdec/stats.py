"""What rounds of real decoding say: acceptance by child index, block efficiency."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from specdec.trace import Round


@dataclass(frozen=True, slots=True)
class IndexAcceptance:
    """How often the child with one index was the accepted one.

    offered: verified nodes that had such a child. accepted: those where it was the accepted child, so
    accepted / offered estimates R(index), whatever happened at smaller indices.
    """

    child_index: int
    accepted: int
    offered: int

    @property
    def rate(self) -> float:
        """accepted / offered."""
        return self.accepted / self.offered

    def interval(self, z: float = 1.96) -> tuple[float, float]:
        """Wilson's score interval of the rate; 95% at the default z."""
        n, rate = self.offered, self.rate
        centre = (rate + z * z / (2 * n)) / (1 + z * z / n)
        half = z / (1 + z * z / n) * math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n))
        # at 0 and 1 the bound is exact, and rounding must not push it out of the rate's own side
        return max(0.0, min(centre - half, rate)), min(1.0, max(centre + half, rate))


def acceptance_by_index(rounds: Iterable[Round]) -> list[IndexAcceptance]:
    """Acceptance by child index over all verified nodes, from index 0 to the largest that was offered."""
    offered: dict[int, int] = {}
    accepted: dict[int, int] = {}
    for round in rounds:
        for node in round.nodes:
            if node.status == "unvisited":
                continue
            index = node.path[-1]
            offered[index] = offered.get(index, 0) + 1
            accepted[index] = accepted.get(index, 0) + (node.status == "accepted")
    return [IndexAcceptance(index, accepted[index], offered[index]) for index in sorted(offered)]


def block_efficiency(rounds: Iterable[Round]) -> float:
    """Tokens per target evaluation; 0 where there was none."""
    counts = [len(round.tokens) for round in rounds]
    return sum(counts) / len(counts) if counts else 0.0
