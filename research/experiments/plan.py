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

from research.estimates import Row, key_of
from research.experiments.settings import Point, Settings
from specdec import topology
from specdec.optimal import optimal_topology
from specdec.stats import acceptance_vector
from specdec.topology import Topology

CONTEXTS = "contexts"
"""The `method` of the rows that hold acceptance computed at some contexts."""
KEY = ("method", "tree", "prompt", "repeat")
"""The fields of a cell. Points whose trees are equal share their runs."""


class Planned(NamedTuple):
    """A point with its tree and a digest of the tree."""

    point: Point
    topology: Topology
    tree: str

    @classmethod
    def of(cls, point: Point, acceptance: np.ndarray | None = None) -> Planned:
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
    their trees; until the calibration is finished, only those that calibrate. numbers: prompt and repeat of
    the runs that each planned point needs. ValueError if the calibration accepted nothing.
    """

    def __init__(self, settings: Settings, rows: Sequence[Row]):
        self.settings, self.finished = settings, {key_of(row, KEY): row for row in rows}
        self.calibration = [Planned.of(point) for point in settings.calibration]
        self.acceptance: dict[str, np.ndarray] = {}
        self._plan(self.calibration)
        self.is_calibrated = all(len(self.runs_of(item)) == len(self.numbers) for item in self.calibration)
        if self.is_calibrated:
            self.acceptance = {method: self._rates(method) for method in settings.methods}
            self._plan([Planned.of(point, self.acceptance[point.method]) for point in settings.points])

    def cells(self) -> list[Row]:
        """The runs, in order: all points do one run before any point does the next.

        The first runs calibrate; the others follow when these are finished. A cell without a tree is a prompt
        at whose contexts acceptance is computed.
        """
        keys = [(item.point.method, item.tree, *number) for number in self.numbers for item in self.planned]
        if self.is_calibrated and self.settings.positions:
            keys += [(CONTEXTS, "", prompt, 0) for prompt in range(len(self.settings.prompts))]
        return [dict(zip(KEY, key)) for key in keys]

    @property
    def is_finished(self) -> bool:
        """Whether no run is missing."""
        return self.is_calibrated and {key_of(cell, KEY) for cell in self.cells()} <= self.finished.keys()

    def runs_of(self, item: Planned) -> list[Row]:
        """The finished ones among the runs of a point."""
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

    def _plan(self, items: Sequence[Planned]) -> None:
        """Plans these points, with as many runs as they need by the finished ones."""
        self.planned, wanted, prompts = items, self.settings.tokens, len(self.settings.prompts)
        count = math.ceil(wanted / self.settings.max_new_tokens)
        while True:
            self.numbers = [(run % prompts, run // prompts) for run in range(count)]
            runs = [self.runs_of(item) for item in items]
            least = min(sum(run["tokens"] for run in row) for row in runs)
            if least >= wanted or any(len(row) < count for row in runs):
                return
            count += math.ceil((wanted - least) / (least / count))


def summed(runs: Sequence[Row], name: str) -> list[int]:
    """The lists under this name, summed over runs element by element; shorter lists are padded with zeros."""
    return [sum(column) for column in zip_longest(*(run[name] for run in runs), fillvalue=0)]
