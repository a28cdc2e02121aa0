"""Decides which runs belong to an experiment, from its settings and its finished runs.

A point is a method, a drafting strategy and k. A run is one text: (prompt, repeat). All points do the same
runs. Each point must reach a number of tokens, so the point with the shortest texts determines the number of
runs. Each decision depends only on finished runs of earlier stages. So an experiment that was stopped and
resumed does the same runs as one that was not.
"""

import hashlib
import json
import math
from collections.abc import Sequence
from itertools import zip_longest
from typing import NamedTuple

import numpy as np

from research.estimates import Row, key_of
from research.experiments.settings import METHODS, Point, Settings
from specdec import Topology, optimal_topology, topology
from specdec.stats import acceptance_vector

CONTEXTS = "contexts"  # the `method` in rows of acceptance that was computed at some contexts
KEY = ("method", "tree", "prompt", "repeat")  # the fields that identify a run


class Planned(NamedTuple):
    """One point of the experiment (method, strategy, k) and the draft tree that it uses."""

    point: Point
    topology: Topology
    tree: str  # a hash that names the tree; points with equal method and tree share their runs


class Plan:
    """The runs of an experiment, given the finished runs.

    calibration: the points that run first, because all other trees are built from the acceptance by index
    that they measure. is_calibrated: whether their runs are finished. acceptance: for each method, the
    acceptance by index from these runs. planned: all points with their trees; only the calibration's until it
    is finished. numbers: the runs (prompt, repeat) that each planned point needs. ValueError if the
    calibration accepted no drafted token.
    """

    def __init__(self, settings: Settings, rows: Sequence[Row]):
        self.settings, self.finished = settings, {key_of(row, KEY): row for row in rows}
        self.acceptance: dict[str, np.ndarray] = {}
        self._plan(settings.calibration)
        self.calibration = self.planned
        self.is_calibrated = all(len(self.runs_of(item)) == len(self.numbers) for item in self.calibration)
        if self.is_calibrated:
            self.acceptance = {method: self._rates(method) for method in METHODS}
            self._plan(settings.points)

    def cells(self) -> list[Row]:
        """All planned runs, in order: each point has its first run before any point has its second.

        Until the calibration is complete, only its runs. A run without a tree computes acceptance at some
        contexts of the text of one prompt.
        """
        keys = [(item.point.method, item.tree, *number) for number in self.numbers for item in self.planned]
        if self.is_calibrated and self.settings.positions:
            keys += [(CONTEXTS, "", prompt, 0) for prompt in range(len(self.settings.prompts))]
        return [dict(zip(KEY, key)) for key in keys]

    @property
    def is_finished(self) -> bool:
        """Whether all runs of the experiment are finished."""
        return self.is_calibrated and {key_of(cell, KEY) for cell in self.cells()} <= self.finished.keys()

    def runs_of(self, item: Planned) -> list[Row]:
        """The finished runs of a point."""
        keys = ((item.point.method, item.tree, *number) for number in self.numbers)
        return [self.finished[key] for key in keys if key in self.finished]

    def _rates(self, method: str) -> np.ndarray:
        runs = [run for item in self.calibration if item.point.method == method for run in self.runs_of(item)]
        rates = acceptance_vector(summed(runs, "accepted"), summed(runs, "reached"))
        if not rates.any():
            raise ValueError(
                "nothing drafted was accepted in the calibration runs: raise tokens, or try another draft"
            )
        return rates

    def _plan(self, points: Sequence[Point]) -> None:
        """Plan these points. The number of runs is computed from the tokens of the finished runs."""
        self.planned = [self._with_tree(point) for point in points]
        tokens, prompts = self.settings.tokens, len(self.settings.prompts)
        count = math.ceil(tokens / self.settings.max_new_tokens)
        while True:
            self.numbers = [(run % prompts, run // prompts) for run in range(count)]
            runs = [self.runs_of(item) for item in self.planned]
            least = min(sum(run["tokens"] for run in row) for row in runs)
            if least >= tokens or any(len(row) < count for row in runs):
                return
            count += math.ceil((tokens - least) / (least / count))

    def _with_tree(self, point: Point) -> Planned:
        if point.strategy == "optimal":
            tree = optimal_topology(self.acceptance[point.method], point.k)
        else:
            tree = topology.named(point.strategy, point.k)
        # the parents determine the tree, since child indices count from 0
        return Planned(point, tree, hashlib.sha256(json.dumps(tree.parents).encode()).hexdigest()[:12])


def summed(runs: Sequence[Row], name: str) -> list[int]:
    """The lists called `name`, added up over runs element by element; missing elements count as 0."""
    return [sum(column) for column in zip_longest(*(run[name] for run in runs), fillvalue=0)]
