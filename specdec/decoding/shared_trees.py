"""The trees of runs that are decoded together: one budget of rows for all of them.

Under ERSD the text of a run depends on no tree, so its tree may follow its own rounds and the runs beside it.
Under the other rules the trees stay as they were at the start of the run. A seed then gives the same text
again, and no tree depends on noise that decides later: runs with equal seeds share their noise.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from weakref import WeakKeyDictionary

import numpy as np

from specdec.decoding.forest import forest, queue
from specdec.decoding.run import Run
from specdec.stats import acceptance_vector
from specdec.topology import Topology
from specdec.trace import Round

_PRIOR = 16.0
"""Verified nodes for which the acceptance of the settings counts."""
_MEMORY = 96.0
"""Verified nodes after which all counts are halved, because a text changes."""
_SHARE = 0.005
"""Part of the time that the choice may take: trees are chosen again after 200 times its seconds."""
_PAUSE = 0.02
"""Seconds until the next look at a run that is alone."""
_MOST_NODES = 64
"""Drafted tokens of all texts."""


class OwnAcceptance:
    """Acceptance by child index of one text: that of its settings, corrected by its own rounds.

    measured: the acceptance [indices] of the settings, which counts as much as `_PRIOR` verified nodes.
    """

    def __init__(self, measured: np.ndarray):
        before = 1 - np.concatenate([[0.0], np.cumsum(measured)[:-1]])
        self._reached = _PRIOR * np.maximum(before, 1e-3)
        self._accepted = self._reached * np.minimum(measured / np.maximum(before, 1e-9), 1.0)

    def add(self, round: Round) -> None:
        """Counts the verified nodes of a round of this text."""
        for _, taken, children in round.verified():
            self._reached[: (children if taken is None else taken + 1)] += 1
            if taken is not None and taken < len(self._accepted):
                self._accepted[taken] += 1
        if self._reached[0] > _MEMORY:
            self._reached, self._accepted = self._reached / 2, self._accepted / 2

    def vector(self) -> np.ndarray:
        """Acceptance [indices] at present."""
        return acceptance_vector(self._accepted.tolist(), self._reached.tolist())


class SharedTrees:
    """Chooses the trees of runs that are decoded together, again and again.

    Only a run of "auto" whose text depends on no tree takes part. Trees of other runs stay as they are; the
    rows of these runs count as those of a text without drafts.
    """

    def __init__(self) -> None:
        self._own: WeakKeyDictionary[Run, OwnAcceptance] = WeakKeyDictionary()
        self._due = 0.0

    def trees(self, runs: Sequence[Run]) -> dict[Run, Topology]:
        """New trees for a step of these runs; empty if they keep theirs."""
        start = time.perf_counter()
        if start < self._due:
            return {}
        choices = {run: run.choice for run in runs if run.choice is not None and run.may_change_tree}
        if not choices:
            return {}
        if len(runs) == 1 and choices[runs[0]].at_once == 1:
            self._due = start + _PAUSE
            return {run: choice.topology for run, choice in choices.items()}
        most = max(1, min(_MOST_NODES, 4 * _MOST_NODES // len(choices)))
        queues = []
        for number, (run, choice) in enumerate(choices.items()):
            own = self._own.setdefault(run, OwnAcceptance(choice.acceptance))
            queues.append(queue(own.vector(), most, number))
        costs = max(choices.values(), key=lambda choice: choice.at_once).costs
        trees = forest(queues, costs, _MOST_NODES, len(runs))
        now = time.perf_counter()
        self._due = now + (now - start) / _SHARE
        return dict(zip(choices, trees, strict=True))

    def learn(self, run: Run, round: Round) -> None:
        """Counts what the target accepted of a run's round."""
        if round.nodes and run in self._own:
            self._own[run].add(round)
