"""What a pair's runs have measured: how often drafted tokens are accepted, and the times of rounds."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from specdec.decoding.costs import RoundTimes
from specdec.settings import RunSettings
from specdec.stats import acceptance_vector, index_counts
from specdec.topology import Topology
from specdec.trace import Round

if TYPE_CHECKING:
    from specdec.pair import ModelPair

_ASSUMED = np.array([0.6, 0.15, 0.06, 0.03])
"""The acceptance by child index that is assumed for any pair before anything is measured."""
PRIOR, _EARLIER, _MEMORY = 4.0, 48.0, 96.0
"""Weights, as numbers of verified nodes. The assumed acceptance counts as much as `PRIOR` nodes. The nodes of
all earlier runs together count as at most `_EARLIER`. When the counts of a run exceed `_MEMORY` nodes, they
are scaled down to `_MEMORY` / 2 nodes, so that a run follows changes of its text."""
_RUNS = 8
"""The number of latest runs whose counts are stored for each method and sampling."""
_REMEMBERED = 64
"""The number of combinations of method and sampling for which counts are stored."""


class Counts:
    """Counts of a text's verified nodes by child index: how many had a child with this index and accepted no
    earlier child, and how many accepted the child with this index (`stats.IndexCounts`)."""

    def __init__(self, reached: np.ndarray, accepted: np.ndarray):
        self.reached, self.accepted = reached, accepted

    @classmethod
    def assumed(cls) -> Counts:
        """Counts that express the assumed acceptance, with the weight of `PRIOR` verified nodes."""
        reach = 1 - np.concatenate([[0.0], np.cumsum(_ASSUMED)[:-1]])
        return cls(PRIOR * reach, PRIOR * _ASSUMED)

    @classmethod
    def none(cls) -> Counts:
        """Counts that are all 0."""
        return cls(np.zeros(1), np.zeros(1))

    @classmethod
    def of(cls, round: Round, tree: Topology) -> Counts:
        """Counts of the verified nodes of a round on the tree `tree`."""
        counts = index_counts([round], tree)
        return cls(np.array(counts.reached, float), np.array(counts.accepted, float))

    def add(self, round: Counts) -> None:
        """Adds the counts of a round of this run. Later rounds weigh more: older counts are scaled down."""
        self.include(round)
        if self.reached[0] > _MEMORY:
            self.at_most(_MEMORY / 2)

    def include(self, other: Counts) -> None:
        """Adds other counts."""
        if (missing := len(other.reached) - len(self.reached)) > 0:
            self.reached, self.accepted = np.pad([self.reached, self.accepted], ((0, 0), (0, missing)))
        self.reached[: len(other.reached)] += other.reached
        self.accepted[: len(other.accepted)] += other.accepted

    def at_most(self, nodes: float) -> None:
        """Scales the counts down to this many verified nodes if they are of more nodes."""
        if self.reached[0] > nodes:
            share = nodes / self.reached[0]
            self.reached, self.accepted = share * self.reached, share * self.accepted

    def vector(self) -> np.ndarray:
        """Acceptance by child index, from these counts. The first value is above 0."""
        vector = acceptance_vector(self.accepted.tolist(), self.reached.tolist())
        vector[0] = max(vector[0], 1e-4)
        return vector / max(vector.sum(), 1.0)


class Learned:
    """A pair's experience: the times of its rounds, and the counts of the verified nodes of its latest
    runs.

    runs: the seed and the counts of each run, by method, temperature and draft temperature.
    """

    def __init__(self) -> None:
        self.times = RoundTimes()
        self.runs: dict[tuple[str, float, float], deque[tuple[int, Counts]]] = {}

    def before(self, settings: RunSettings, seed: int) -> Counts:
        """The counts with which a run begins: the assumed ones, and those of earlier runs with other seeds,
        because a run with the same seed used the same noise."""
        total, earlier = Counts.assumed(), Counts.none()
        for other, counts in self.runs.get(_kind(settings), ()):
            if other != seed:
                earlier.include(counts)
        earlier.at_most(_EARLIER)
        total.include(earlier)
        return total

    def of_new_run(self, settings: RunSettings, seed: int) -> Counts:
        """New counts of 0, stored at once. The run adds to them, and later runs read them."""
        own = Counts.none()
        self.runs.setdefault(_kind(settings), deque(maxlen=_RUNS)).append((seed, own))
        for oldest in list(self.runs)[:-_REMEMBERED]:
            self.runs.pop(oldest, None)  # another visitor's run may have removed this entry meanwhile
        return own


def learned_of(pair: ModelPair) -> Learned:
    """The experience from the runs of this pair so far."""
    return pair.learned.setdefault("auto", Learned())


def _kind(settings: RunSettings) -> tuple[str, float, float]:
    target, draft = (round(each.temperature, 1) for each in (settings.sampling, settings.draft_sampling))
    return settings.method, target, draft
