"""The noise of one round, for each node: races, uniforms for acceptance tests, and uniforms for last tokens.

    PositionNoise    keyed by seed and position: nodes of one depth share it, and so do overlapping rounds
    RoundNoise       keyed by seed, round and node, for rules that decide on several positions at once

A rule that decides on several positions at once uses the noise of several nodes of one depth, also at
positions that the round does not reach. No later round may use this noise again, so its key has the round.

A node is named by its path: the child indices from the root to the node. The root's path is ().
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import torch

from specdec.race import splitmix
from specdec.race.keys import Stream, key_of, node_seed, uniform
from specdec.race.races import Arrivals, Race, RaceOfEach, races_of

Node = tuple[int, ...]
"""The path of a node: the child indices from the root to the node."""
_AHEAD = 8
"""The most positions whose exponentials are drawn in one call."""


class Noise(Protocol):
    """The noise with which a verification rule may decide in one round, for each node."""

    def race(self, node: Node) -> Race:
        """The race for the token after this node (Algorithm 5 of the paper)."""

    def test(self, node: Node, child_index: int) -> float:
        """The uniform that tests this child of the node (Algorithm 4 of the paper)."""

    def last(self, node: Node) -> float:
        """The uniform that samples the token after this node if no child is accepted (Algorithm 4)."""


class Races:
    """The races of one run, by position. Races before the first position of the latest round are dropped.

    Rounds overlap: the race of a position that was drafted but not reached is used again by the next round.
    """

    def __init__(self, seed: int, vocab_size: int, device: torch.device | str = "cpu"):
        self.seed, self.vocab_size, self.device = seed, vocab_size, device
        self._known: dict[int, Race] = {}
        # on a CPU: as many positions as fit into one block of the generator (`splitmix.blocks`)
        on_host = torch.device(device).type == "cpu"
        self._at_once = max(1, min(_AHEAD, splitmix.BLOCK // vocab_size)) if on_host else _AHEAD

    def at(self, position: int) -> Race:
        """The race at this position."""
        race = self._known.get(position)
        if race is None:
            new = [n for n in range(position, position + self._at_once) if n not in self._known]
            keys = [key_of(self.seed, Stream.RACE, n) for n in new]
            self._known.update(zip(new, races_of(keys, self.vocab_size, self.device), strict=True))
            race = self._known[position]
        return race

    def forget(self, position: int) -> None:
        """Forget all races before this position."""
        self._known = {n: race for n, race in self._known.items() if n >= position}


class PositionNoise:
    """A `Noise` of the round that begins at this position, keyed by (seed, position)."""

    def __init__(self, races: Races, position: int):
        self.seed, self.position, self._races = races.seed, position, races
        races.forget(position)

    def race(self, node: Node) -> Race:
        """The race for the token after this node; all nodes of one depth share one race."""
        return self._races.at(self.position + len(node))

    def races(self, nodes: Sequence[Node]) -> Arrivals:
        """The one race that all these nodes share. They must have the same depth."""
        return self.race(nodes[0])

    def log_waits(self, depth: int, count: int) -> list[float]:
        """Logarithms of `count` exponential waits. After these waits, tokens arrive again in the race of this
        depth (`drafters.independent`)."""
        uniforms = (uniform(self.seed, self.position + depth, i, Stream.AGAIN) for i in range(count))
        return [math.log(-math.log1p(-u)) for u in uniforms]

    def test(self, node: Node, child_index: int) -> float:
        """The uniform that tests this child; see `Noise.test`."""
        return uniform(self.seed, self.position + len(node), child_index)

    def last(self, node: Node) -> float:
        """The uniform that samples the token after this node; see `Noise.last`."""
        return uniform(self.seed, self.position + len(node), 0, Stream.RESIDUAL)


class RoundNoise(PositionNoise):
    """A `Noise` of the round that begins at this position, keyed by (seed, position, node)."""

    def __init__(self, races: Races, position: int):
        super().__init__(races, position)
        self._known: dict[Node, Race] = {}

    def race(self, node: Node) -> Race:
        """The race for the token after this node; each node has a race of its own."""
        self._draw([node])
        return self._known[node]

    def races(self, nodes: Sequence[Node]) -> Arrivals:
        """The races of these nodes, one per node."""
        self._draw(nodes)
        return RaceOfEach([self._known[node] for node in nodes])

    def test(self, node: Node, child_index: int) -> float:
        """The uniform that tests this child; see `Noise.test`."""
        return uniform(node_seed(self.seed, self.position, (*node, child_index)), 0, 0)

    def last(self, node: Node) -> float:
        """The uniform that samples the token after this node; see `Noise.last`."""
        return uniform(node_seed(self.seed, self.position, node), 0, 0, Stream.RESIDUAL)

    def _draw(self, nodes: Sequence[Node]) -> None:
        new = [node for node in nodes if node not in self._known]
        seeds = (node_seed(self.seed, self.position, node) for node in new)
        keys = [key_of(seed, Stream.RACE, 0) for seed in seeds]
        size, device = self._races.vocab_size, self._races.device
        self._known.update(zip(new, races_of(keys, size, device), strict=True))
