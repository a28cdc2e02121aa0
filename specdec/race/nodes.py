"""Noise of one round, for each node of its tree: for rules that decide on several positions at once.

Such a rule may look at many nodes of one depth, and at positions that the round does not reach. What it has
seen must decide nothing more: so noise is keyed by the round too, by the position at which it begins, and by
the node's path in the tree.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specdec.race.races import LARGE, Stream, fill, key_of
from specdec.race.sparse import SparseRace
from specdec.race.splitmix import GOLDEN, mix

Path = Sequence[int]
"""Child indices from the root, as in `specdec.topology`."""


def node_seed(seed: int, position: int, path: Path) -> int:
    """The seed of a node's own noise, in the round that begins at this position."""
    state = key_of(seed, Stream.ROUND, position)
    for child_index in path:
        state = mix(mix(state) + (child_index + 1) * GOLDEN)
    return state


class NodeRaces:
    """The races of a round's nodes, by their paths."""

    def __init__(self, seed: int, position: int, vocab_size: int):
        self.seed, self.position, self.vocab_size = seed, position, vocab_size

    def at(self, paths: Sequence[Path], device: torch.device) -> Tensor | list[SparseRace]:
        """The race of each path: log e [paths, vocabulary], or sparse ones."""
        if device.type != "cpu" or self.vocab_size <= LARGE:
            return self.log_exponentials(paths, device)
        return [SparseRace(key, self.vocab_size) for key in self._keys(paths)]

    def log_exponentials(self, paths: Sequence[Path], device: torch.device | str = "cpu") -> Tensor:
        """log e, float64 [paths, vocabulary]."""
        rows = torch.empty(len(paths), self.vocab_size, dtype=torch.float64, device=device)
        return fill(rows, self._keys(paths))

    def _keys(self, paths: Sequence[Path]) -> list[int]:
        return [key_of(node_seed(self.seed, self.position, path), Stream.RACE, 0) for path in paths]
