"""Decides which runs an experiment consists of, from its settings and its finished runs.

All points do the same runs (prompt, repeat). There are as many runs as the point with the shortest texts
needs to reach its tokens. Each decision depends only on the finished runs of earlier stages. An experiment
that was stopped therefore does exactly the same runs as any other.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from functools import cached_property
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np

from research.experiments.settings import Point, Settings
from research.experiments.store import Record
from specdec import topology
from specdec.optimal import optimal_topology
from specdec.stats import acceptance_vector
from specdec.topology import Topology

Key = tuple[str, str, int, int]
"""Method, digest of the tree, prompt, repeat: points whose trees are equal share their runs."""


class Planned(NamedTuple):
    """A point with its tree and a digest of the tree."""

    point: Point
    topology: Topology
    tree: str


class Job(NamedTuple):
    """One text to decode."""

    planned: Planned
    prompt: int
    repeat: int

    @property
    def key(self) -> Key:
        """The key of its line in the results file."""
        return self.planned.point.method, self.planned.tree, self.prompt, self.repeat


class ContextJob(NamedTuple):
    """One prompt at whose contexts acceptance by index is to be computed."""

    prompt: int
    repeat: int = 0

    @property
    def key(self) -> Key:
        """The key of its line in the results file."""
        return "contexts", "", self.prompt, self.repeat


class Plan:
    """The runs of an experiment, given the finished ones."""

    def __init__(self, settings: Settings, runs: Sequence[Record]):
        check_runs(runs)
        self.settings = settings
        self.finished = {key_of(run): run for run in runs}

    def missing(self) -> list[Job | ContextJob]:
        """The runs to do next, in order. More may follow when these are finished; empty when all is done."""
        first: list[Job | ContextJob] = [*self._missing_of(self.calibration)]
        if first:
            return first
        contexts = [ContextJob(prompt) for prompt in range(len(self.settings.prompts))]
        waiting = [job for job in contexts if self.settings.positions and job.key not in self.finished]
        return [*self._missing_of(self.planned), *waiting]

    @property
    def is_calibrated(self) -> bool:
        """Whether the runs that determine acceptance by index, and so all trees, are finished."""
        return not self._missing_of(self.calibration)

    @cached_property
    def calibration(self) -> list[Planned]:
        """The points that determine the acceptance by index."""
        return [_planned(point, None) for point in self.settings.calibration]

    @cached_property
    def acceptance(self) -> dict[str, np.ndarray]:
        """R by child index for each method, from the calibration's runs."""
        return {method: self._acceptance(method) for method in self.settings.methods}

    @cached_property
    def planned(self) -> list[Planned]:
        """All points with their trees; the calibration must be finished."""
        return [_planned(point, self.acceptance[point.method]) for point in self.settings.points]

    @cached_property
    def count(self) -> int:
        """The number of runs that each point needs, estimated from the finished runs."""
        return self.run_count(self.planned)

    def finished_runs(self, item: Planned) -> list[Record]:
        """The finished runs of a point."""
        return [run for run in self.runs_of(item, self.count) if run is not None]

    def _acceptance(self, method: str) -> np.ndarray:
        items = [item for item in self.calibration if item.point.method == method]
        count = self.run_count(self.calibration)
        runs = [run for item in items for run in self.runs_of(item, count) if run is not None]
        acceptance = acceptance_vector(summed(runs, "accepted"), summed(runs, "reached"))
        if not acceptance.any():
            raise ValueError(
                "nothing drafted was accepted in the calibration runs: raise tokens, or try another draft"
            )
        return acceptance

    def runs_of(self, item: Planned, count: int) -> list[Record | None]:
        """The first `count` runs of a point; None if one of them is not finished."""
        numbers = map(self.settings.prompt_and_repeat, range(count))
        return [self.finished.get(Job(item, *number).key) for number in numbers]

    def run_count(self, items: Sequence[Planned]) -> int:
        """The number of runs that each of these points needs, estimated from the finished ones."""
        wanted = self.settings.tokens
        count = math.ceil(wanted / self.settings.max_new_tokens)
        while True:
            runs = [[run for run in self.runs_of(item, count) if run is not None] for item in items]
            if any(len(row) < count for row in runs):
                return count
            least = min(sum(run["tokens"] for run in row) for row in runs)
            if least >= wanted:
                return count
            count += math.ceil((wanted - least) / (least / count))

    def _missing_of(self, items: Sequence[Planned]) -> list[Job]:
        """The missing runs of these points, run by run: all points do one run before any does the next."""
        jobs: dict[Key, Job] = {}
        for number in range(self.run_count(items)):
            for item in items:
                job = Job(item, *self.settings.prompt_and_repeat(number))
                if job.key not in self.finished:
                    jobs.setdefault(job.key, job)
        return list(jobs.values())


KEY = ("method", "tree", "prompt", "repeat")
"""The fields that distinguish the runs of one experiment."""
_KEY_FIELDS = dict(zip(KEY, (str, str, int, int), strict=True))
_COUNTS = ("lengths", "offered", "reached", "accepted")
_RUN_FIELDS = _KEY_FIELDS | {"tokens": int, "rounds": int} | dict.fromkeys(_COUNTS, list)
_CONTEXT_FIELDS = _KEY_FIELDS | {"positions": int}


def check_runs(runs: Sequence[Record]) -> None:
    """ValueError names the first line of a results file that lacks a field or repeats an earlier run."""
    lines: dict[tuple[Any, ...], int] = {}
    for number, run in enumerate(runs, start=2):
        at = f"line {number}: "
        fields = _CONTEXT_FIELDS if run.get("method") == "contexts" else _RUN_FIELDS
        for name, kind in fields.items():
            value = run.get(name)
            if not isinstance(value, kind) or (isinstance(value, list) and {*map(type, value)} - {int}):
                shown = f"{name} = {value!r:.60}" if name in run else f"no {name!r}"
                raise ValueError(f"{at}{shown}: not the record of a run; take the line out")
        key = key_of(run)
        if key in lines:
            raise ValueError(f"{at}the run of line {lines[key]} again; take one of them out")
        lines[key] = number


def key_of(run: Record) -> Key:
    """The key of a finished run."""
    return tuple(run[name] for name in KEY)


def summed(runs: Sequence[Record], name: str) -> list[int]:
    """The lists under this name, summed over runs element by element; shorter lists are padded with zeros."""
    return [sum(column) for column in zip_longest(*(run[name] for run in runs), fillvalue=0)]


def _planned(point: Point, acceptance: np.ndarray | None) -> Planned:
    if point.strategy == "optimal":
        assert acceptance is not None, "the optimal tree is planned after the calibration"
        tree = optimal_topology(acceptance, point.k)
    else:
        tree = topology.named(point.strategy, point.k)
    # the parents determine the tree, since child indices count from 0
    digest = hashlib.sha256(json.dumps(tree.parents).encode()).hexdigest()[:12]
    return Planned(point, tree, digest)
