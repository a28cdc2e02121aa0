"""Estimates the seconds of a round on this machine from the times of earlier rounds."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import quantiles
from typing import Any

from specdec.trace import Round

_KEPT = 16
"""The number of latest times that are stored for each number of texts and rows."""
_LEAST = 3
"""The time for a number of rows counts as measured only after this many forward passes, because the first
passes with a new number of rows are slow."""
_ROW, _DRAFT = 0.03, 0.12
"""Assumed until they are measured: the time that each further row adds, and the time of a draft model's
forward pass, both relative to the target's forward pass over one row. They are low on purpose, so that larger
trees are tried and their true cost is measured."""
_FAR = 32
"""If only one number of rows was measured, a time is also assumed for a pass with this many more rows."""


class JointCost:
    """The seconds of one forward pass over rows of several texts, interpolated linearly between the measured
    numbers of texts and of rows.

    tables: for each measured number of texts, the seconds by the number of rows that each text has. They
    never fall as rows are added: each number gets at least the seconds of every smaller measured number.
    """

    def __init__(self, tables: Mapping[int, Mapping[int, float]]):
        self.tables: dict[int, dict[int, float]] = {}
        for texts in sorted(tables):
            rows = sorted(tables[texts])
            rising = accumulate((tables[texts][each] for each in rows), max)
            self.tables[texts] = dict(zip(rows, rising, strict=True))
        self._known: dict[tuple[int, float], float] = {}

    def seconds(self, texts: int, rows: float) -> float:
        """Seconds of one forward pass that `texts` texts share, with `rows` rows in total; 0 for no text."""
        if texts == 0:
            return 0.0
        if (texts, rows) not in self._known:
            self._known[texts, rows] = self._seconds(texts, rows - texts)
        return self._known[texts, rows]

    def _seconds(self, texts: int, more: float) -> float:
        """Computes the result of `seconds`. more: the total number of rows minus the number of texts."""
        measured = [*self.tables]
        if len(measured) == 1:
            return _interpolated(self.tables[measured[0]], (texts + more) / measured[0])
        right = min(max(bisect_left(measured, texts), 1), len(measured) - 1)
        fewer, more_texts = measured[right - 1 : right + 1]
        low, high = (_interpolated(self.tables[number], 1 + more / number) for number in (fewer, more_texts))
        low = min(low, high)  # other work on the machine only adds to times
        between = low + (texts - fewer) / (more_texts - fewer) * (high - low)
        if texts < fewer:  # fewer texts than measured take at least a proportional part
            return max(between, low * texts / fewer)
        return between if texts <= more_texts else min(between, high * texts / more_texts)


def _interpolated(table: Mapping[int, float], count: float) -> float:
    """The seconds for this number of rows, from a table in rising order of rows. Beyond the table's end they
    grow as between its last two numbers."""
    counts = [*table]
    if len(counts) == 1 or count <= counts[0]:
        return table[counts[0]]
    right = min(bisect_left(counts, count), len(counts) - 1)
    below, above = counts[right - 1 : right + 1]
    return table[below] + (count - below) / (above - below) * (table[above] - table[below])


@dataclass(frozen=True)
class Overhead:
    """Seconds of a round outside the forward passes, for each text of those that are decoded together.

    empty: seconds of a round without drafts. drafting: seconds that the first drafted token adds. node:
    seconds that each further token adds. level: seconds that each level of the tree adds, for the races that
    choose the level's tokens.
    """

    empty: float
    drafting: float
    node: float
    level: float


@dataclass(frozen=True)
class RoundCost:
    """Seconds of a round of several texts, which share the forward passes of target and draft.

    overhead: of each text. most_repeated: the largest number of accepted tokens that the target reads a
    second time after a rejection.
    """

    target: JointCost
    draft: JointCost
    overhead: Overhead
    most_repeated: int = 0


def work_of(round: Round) -> tuple[int, int]:
    """The draft model's work in a round: the number of its forward passes, and of the rows in all of them."""
    above = {node.path[:-1] for node in round.nodes if not node.copied}
    return len({len(path) for path in above}), len(above)


class RoundTimes:
    """The latest times of a pair's rounds, for single texts and for several texts together. The costs of
    rounds are estimated from them.

    The seconds of forward passes are stored by the number of texts and the rows of each text. All other
    seconds of a text's round are stored by the number of its drafted tokens. window: the number of latest
    times stored for each of these keys; None stores all.
    """

    def __init__(self, window: int | None = _KEPT):
        self._window = window
        self._target: dict[tuple[int, int], deque[float]] = {}
        self._draft: dict[tuple[int, int], deque[float]] = {}
        self._overheads: dict[int, deque[float]] = {}
        self._steps = 0

    def add(self, rounds: Sequence[Round], draft: float, target: float) -> None:
        """Adds the rounds of one step. draft, target: seconds of the two models' forward passes."""
        texts = len(rounds)
        self._steps += 1
        rows = sum(1 + len(round.nodes) for round in rounds)
        self._keep(self._target, (texts, max(1, int(rows / texts + 0.5))), target)
        drafting = [work for round in rounds if (work := work_of(round))[0]]
        if drafting:
            levels = max(forwards for forwards, _ in drafting)
            each = sum(nodes for _, nodes in drafting) / levels / len(drafting)
            self._keep(self._draft, (len(drafting), max(1, int(each + 0.5))), draft / levels)
        for round in rounds:
            self._keep(self._overheads, len(round.nodes), round.seconds.verify + round.seconds.rest)

    def needs_plain(self, texts: int) -> bool:
        """Whether the next round should be plain, without drafts. Every third round should be, until enough
        plain rounds with about this many texts were timed."""
        if self._steps % _LEAST != 1:
            return False
        sizes = (other for other, rows in self._target if rows == 1 and self._has_enough(other))
        return not any(other <= 2 * texts and texts <= 2 * other for other in sizes)

    def _has_enough(self, texts: int) -> bool:
        return len(self._target.get((texts, 1), ())) >= _LEAST

    def costs(self, most_repeated: int = 0) -> RoundCost:
        """The costs estimated from the times so far. most_repeated: as in `RoundCost`."""
        compared = {key: seconds for key, seconds in self._target.items() if self._has_enough(key[0])}
        target = _joint(compared or self._target, 1.0)
        draft = _joint(self._draft, _DRAFT * target.seconds(1, 1))
        return RoundCost(target, draft, self._overhead(), most_repeated)

    def _keep(self, times: dict[Any, deque[float]], key: Any, seconds: float) -> None:
        times.setdefault(key, deque(maxlen=self._window)).append(seconds)

    def _overhead(self) -> Overhead:
        medians = _typical(self._overheads)
        if not medians:
            return Overhead(0.0, 0.0, 0.0, 0.0)
        fewest, most = min(medians), max(medians)
        node = max(medians[most] - medians[fewest], 0.0) / (most - fewest) if most > fewest else 0.0
        return Overhead(max(medians[fewest] - fewest * node, 0.0), node, node, 0.0)


def _typical(times: Mapping[Any, Sequence[float]]) -> dict[Any, float]:
    """The lower quartile of the times of each key that has at least `_LEAST` times; other keys are left out.
    If no key has enough times, each key gets its lowest time."""
    often = {key: undisturbed(seconds) for key, seconds in times.items() if len(seconds) >= _LEAST}
    return often or {key: min(seconds) for key, seconds in times.items()}


def _joint(times: Mapping[tuple[int, int], Sequence[float]], one: float) -> JointCost:
    """The cost of a forward pass. times: measured seconds, by the number of texts and the rows of each text.
    one: the seconds assumed for a pass over one row if nothing was measured."""
    by_texts = {}
    for texts in sorted({texts for texts, _ in times}):
        medians = _typical({rows: seconds for (other, rows), seconds in times.items() if other == texts})
        by_texts[texts] = _extended(_rising(medians), texts)
    return JointCost(by_texts or {1: _extended({1: one}, 1)})


def _rising(seconds: Mapping[int, float]) -> dict[int, float]:
    """The measured seconds by number of rows, lowered so that they never fall as rows are added. A pass that
    took longer than a larger one was slowed by other work on the machine."""
    rows = sorted(seconds, reverse=True)
    return dict(zip(rows, accumulate((seconds[each] for each in rows), min), strict=True))


def _extended(times: Mapping[int, float], texts: int) -> dict[int, float]:
    """The seconds of a forward pass that this many texts share, by the number of rows that each text has.

    times: the measured seconds by that number of rows. The time for one row is assumed if it was not
    measured. If only one number of rows was measured, the time for more rows is assumed too.
    """
    table, fewest = {**times}, min(times)
    for rows in (1, *((fewest + _FAR,) if len(times) == 1 else ())):
        table.setdefault(rows, times[fewest] * _assumed(texts * rows) / _assumed(texts * fewest))
    return table


def _assumed(rows: int) -> float:
    return 1 + _ROW * (rows - 1)


def undisturbed(seconds: Sequence[float]) -> float:
    """An estimate of the time without other work on the machine: the lower quartile, because other work only
    adds to the times."""
    return quantiles(seconds, method="inclusive")[0] if len(seconds) > 1 else seconds[0]
