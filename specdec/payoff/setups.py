"""A set-up: all values that decide whether drafting pays. They are measured, or given by a user.

Times have any unit, because only their ratios matter. Measured set-ups are in seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, NamedTuple

import numpy as np

from specdec.checks import whole
from specdec.decoding.costs import JointCost, Overhead, RoundCost
from specdec.decoding.fastest import QUEUE, SIZES
from specdec.decoding.joint_trees import DraftNode, queue

THOROUGH = 4
"""The command measures this many times as long as the page, because users of a command expect to wait longer
than after a click."""
MOST_DRAFTED = max(SIZES)
"""The number of drafted tokens of the largest tree to choose from."""
ROWS = (2, 4, 8, 16, 32, 64)
"""The numbers of rows for which a user gives the cost of a target call."""
NOTHING = Overhead(0.0, 0.0, 0.0, 0.0)
"""An overhead of zero: no time outside the two models."""
_TYPICAL = 4
"""The time outside the two models is stated for a sequence of this many drafted tokens."""


SHAPES: dict[str, Callable[[np.ndarray], list[DraftNode]]] = {
    "best": lambda rates: queue(rates, QUEUE),
    "sequence": lambda rates: queue(rates[:1], MOST_DRAFTED),
    "batch": lambda rates: [
        DraftNode((i,), rate, rate, i == 0) for i, rate in enumerate(rates[:MOST_DRAFTED].tolist())
    ],
}
"""The shapes of the draft tree, by name. Each is a function that takes acceptance by index, and returns the
nodes from which the trees of all sizes are cut."""


class SetUp(NamedTuple):
    """The values that decide whether drafting pays.

    acceptance: by child index; the first value is above 0. costs: the times of a round. texts: the number of
    texts decoded together. shape: the shape of the draft tree, a name of `SHAPES`.
    """

    acceptance: np.ndarray
    costs: RoundCost
    texts: int = 1
    shape: str = "best"

    @property
    def call(self) -> float:
        """The time of a target call over one row, which is the unit of all costs that visitors give."""
        return self.costs.target.seconds(1, 1)

    @property
    def draft_step(self) -> float:
        """The time of a draft call over one row, in multiples of a target call over one row."""
        return self.costs.draft.seconds(1, 1) / self.call

    @property
    def rows(self) -> tuple[float, ...]:
        """The times of target calls over the numbers of rows in `ROWS`, in multiples of one over one row."""
        return tuple(self.costs.target.seconds(1, rows) / self.call for rows in ROWS)

    @property
    def rest(self) -> float:
        """The time outside the two models that drafting four tokens in a sequence adds to a round, in
        multiples of a target call over one row."""
        over = self.costs.overhead
        return (over.drafting + (_TYPICAL - 1) * over.node + _TYPICAL * over.level) / self.call

    def as_json(self) -> dict[str, Any]:
        """The set-up as plain data, from which `from_json` creates it again."""
        costs = self.costs
        return {
            "acceptance": self.acceptance.tolist(),
            "target": costs.target.tables,
            "draft": costs.draft.tables,
            "overheads": {str(self.texts): asdict(costs.overhead)},
            "most_repeated": costs.most_repeated,
            "texts": self.texts,
            "shape": self.shape,
        }

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> SetUp:
        """The set-up that `as_json` wrote. KeyError or ValueError if the entry is anything else.

        An entry without a shape has the default shape.
        """
        target, draft = (
            {
                int(texts): {int(rows): time for rows, time in table.items()}
                for texts, table in entry[role].items()
            }
            for role in ("target", "draft")
        )
        overhead = Overhead(**entry["overheads"][str(entry["texts"])])
        costs = RoundCost(JointCost(target), JointCost(draft), overhead, entry["most_repeated"])
        shape = entry.get("shape", "best")
        return cls(np.array(entry["acceptance"]), costs, entry["texts"], shape)


def roofline(parameters: float, bytes_each: float, bandwidth: float, arithmetic: float) -> JointCost:
    """Seconds of a forward pass: of reading the weights or of the arithmetic, whichever takes longer.

    bytes_each: bytes of a parameter. bandwidth: bytes per second. arithmetic: operations per second; a row
    takes two operations for each parameter. Caches, attention and the start of a kernel count as free. The
    times are exact for whole numbers of rows.
    """
    reading, row = parameters * bytes_each / bandwidth, 2 * parameters / arithmetic
    # the largest number of rows whose arithmetic takes no longer than the reading
    ridge = max(1, int(reading / row))
    return JointCost({1: {n: max(reading, n * row) for n in (1, ridge, ridge + 1, ridge + 2)}})


def with_first(acceptance: np.ndarray, first: float) -> np.ndarray:
    """Acceptance with another value for the first index.

    For a lower value, the other rates fall in the same proportion. For a higher value, they keep their shares
    of the remaining probability.
    """
    own = acceptance[0]
    factor = first / own if first < own else (1 - first) / (1 - own) if own < 1 else 0.0
    return np.array([first, *(factor * acceptance[1:])])


def changed(
    setup: SetUp,
    *,
    acceptance: float | None = None,
    draft_step: float | None = None,
    rows: Sequence[float] | None = None,
    rest: float | None = None,
    texts: int | None = None,
    shape: str | None = None,
) -> SetUp:
    """The set-up with these values instead of its own; None keeps the set-up's value.

    Times are in units of a target call over one row. acceptance: of the first drafted token; the other rates
    follow as in `with_first`. draft_step: the time of a draft call over one row; the times over more rows
    change in proportion. rows: the time of a target call over each number of rows in `ROWS`; if the
    set-up has times for further numbers of rows, these change too (`_with_rows`). rest: as `SetUp.rest`; its
    parts change in proportion. ValueError if the acceptance is not above 0 and at most 1, or texts is below
    1.
    """
    if acceptance is not None and not 0 < acceptance <= 1:
        raise ValueError(f"acceptance = {acceptance!r} is not a number above 0 and at most 1")
    texts = setup.texts if texts is None else whole("texts", texts, 1)
    call, costs = setup.call, setup.costs
    if draft_step is not None:
        own = costs.draft.seconds(1, 1)
        flat = JointCost({1: {1: draft_step * call}})
        costs = replace(costs, draft=scaled(costs.draft, draft_step * call / own) if own else flat)
    if rows is not None:
        costs = replace(costs, target=_with_rows(setup, rows))
    if rest is not None:
        over, own = costs.overhead, setup.rest
        parts = (over.drafting, over.node, over.level)
        added = [rest / own * part for part in parts] if own else [rest * call, 0.0, 0.0]
        costs = replace(costs, overhead=Overhead(over.empty, *added))
    return SetUp(
        setup.acceptance if acceptance is None else with_first(setup.acceptance, acceptance),
        costs,
        texts,
        setup.shape if shape is None else shape,
    )


def _with_rows(setup: SetUp, rows: Sequence[float]) -> JointCost:
    """The cost of a target call with these times over the numbers of rows in `ROWS`.

    Times that the set-up has for other numbers of rows change as much as those of neighbouring numbers. A
    value that equals the set-up's own in three digits, as the page shows it, changes nothing.
    """
    target, counts = setup.costs.target, (1, *ROWS)
    pairs = zip(rows, setup.rows, strict=True)
    added = [0.0, *(0.0 if each == float(f"{own:.3g}") else each - own for each, own in pairs)]
    slope = (added[-1] - added[-2]) / (ROWS[-1] - ROWS[-2])

    def time(count: int) -> float:
        more = float(np.interp(count, counts, added)) + slope * max(0, count - ROWS[-1])
        return target.seconds(1, count) + setup.call * more

    # fewer rows take no longer than more rows
    known = {n: min([time(n), *(time(more) for more in ROWS if more > n)]) for n in target.tables.get(1, ())}
    return JointCost({1: known | {n: time(n) for n in counts}})


def scaled(cost: JointCost, factor: float) -> JointCost:
    """The cost with all times multiplied by this factor."""
    return JointCost(
        {texts: {rows: factor * time for rows, time in table.items()} for texts, table in cost.tables.items()}
    )
