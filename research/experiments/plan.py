"""Decides which runs an experiment consists of, from its settings and its finished runs.

All points do the same runs (prompt, repeat), as many as the point with the shortest texts needs to reach its
tokens. Each decision depends only on the finished runs of earlier stages, so an experiment that was stopped
does exactly the same runs as any other.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from itertools import zip_longest
from typing import NamedTuple

import numpy as np

from research.experiments.settings import Point, Settings
from research.experiments.store import Record
from research.experiments.sweep import key_of
from specdec import topology
from specdec.optimal import optimal_topology
from specdec.stats import acceptance_vector
from specdec.topology import Topology

CONTEXTS = "contexts"
"""The `method` of the rows that hold acceptance computed at some contexts."""
KEY = ("method", "tree", "prompt", "repeat")
"""The fields that distinguish runs. Points whose trees are equal share their runs."""


class Planned(NamedTuple):
    """A point with its tree and a digest of the tree."""

    point: Point
    topology: Topology
    tree: str

    @classmethod
    def of(cls, point: Point, acceptance: np.ndarray | None) -> Planned:
        """The point with its tree. acceptance: R, which the optimal tree needs."""
        if point.strategy == "optimal":
            assert acceptance is not None, "the optimal tree is planned after the calibration"
            tree = optimal_topology(acceptance, point.k)
        else:
            tree = topology.named(point.strategy, point.k)
        # the parents determine the tree, since child indices count from 0
        return cls(point, tree, hashlib.sha256(json.dumps(tree.parents).encode()).hexdigest()[:12])


class Plan:
    """The runs of an experiment, given the finished ones.

    calibration: the points that determine acceptance by index, and so all trees. is_calibrated: whether their
    runs are finished. acceptance: R by child index for each method, from these runs. planned: all points with
    their trees; until the calibration is finished, only those that calibrate. count: the number of runs that
    each planned point needs. ValueError if the calibration accepted nothing.
    """

    def __init__(self, settings: Settings, runs: Sequence[Record]):
        self.settings = settings
        self.finished = {key_of(run, KEY): run for run in runs}
        self.calibration = [Planned.of(point, None) for point in settings.calibration]
        self.acceptance: dict[str, np.ndarray] = {}
        self.planned, self.count = self.calibration, self._run_count(self.calibration)
        self.is_calibrated = all(
            len(self.runs_of(item, self.count)) == self.count for item in self.calibration
        )
        if self.is_calibrated:
            self.acceptance = {method: self._rates(method) for method in settings.methods}
            self.planned = [Planned.of(point, self.acceptance[point.method]) for point in settings.points]
            self.count = self._run_count(self.planned)

    def cells(self) -> list[Record]:
        """The runs, in order: all points do one run before any point does the next.

        The first runs calibrate; the others follow when these are finished. A cell without a tree is a prompt
        at whose contexts acceptance is computed.
        """
        numbers = map(self.settings.prompt_and_repeat, range(self.count))
        cells = [
            item.point._asdict() | {"tree": item.tree, "prompt": prompt, "repeat": repeat}
            for prompt, repeat in numbers
            for item in self.planned
        ]
        if self.is_calibrated and self.settings.positions:
            prompts = range(len(self.settings.prompts))
            cells += [{"method": CONTEXTS, "tree": "", "prompt": n, "repeat": 0} for n in prompts]
        return cells

    @property
    def is_finished(self) -> bool:
        """Whether no run is missing."""
        return self.is_calibrated and {key_of(cell, KEY) for cell in self.cells()} <= self.finished.keys()

    def runs_of(self, item: Planned, count: int) -> list[Record]:
        """The finished ones among the first `count` runs of a point."""
        numbers = map(self.settings.prompt_and_repeat, range(count))
        keys = ((item.point.method, item.tree, *number) for number in numbers)
        return [self.finished[key] for key in keys if key in self.finished]

    def _rates(self, method: str) -> np.ndarray:
        items = [item for item in self.calibration if item.point.method == method]
        runs = [run for item in items for run in self.runs_of(item, self.count)]
        rates = acceptance_vector(summed(runs, "accepted"), summed(runs, "reached"))
        if not rates.any():
            raise ValueError(
                "nothing drafted was accepted in the calibration runs: raise tokens, or try another draft"
            )
        return rates

    def _run_count(self, items: Sequence[Planned]) -> int:
        """The number of runs that each of these points needs, estimated from the finished ones."""
        wanted = self.settings.tokens
        count = math.ceil(wanted / self.settings.max_new_tokens)
        while True:
            runs = [self.runs_of(item, count) for item in items]
            if any(len(row) < count for row in runs):
                return count
            least = min(sum(run["tokens"] for run in row) for row in runs)
            if least >= wanted:
                return count
            count += math.ceil((wanted - least) / (least / count))


def summed(runs: Sequence[Record], name: str) -> list[int]:
    """The lists under this name, summed over runs element by element; shorter lists are padded with zeros."""
    return [sum(column) for column in zip_longest(*(run[name] for run in runs), fillvalue=0)]
