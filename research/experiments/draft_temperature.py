"""ERSD with a draft that is colder or warmer than its target: the speed changes, the text does not.

    python -m research.experiments.draft_temperature           # the embedded pair, half an hour on a CPU
    python -m research.experiments.draft_temperature --smoke   # every stage, in seconds

The target decodes at temperature 1, on the trees of `research.experiments.rules`. Every text is compared with
that of plain decoding with the same seed. Intervals are 95%, clustered by prompt, also those of the gain over
a draft at the target's own temperature. Runs are appended to a JSON-lines file: a stopped experiment goes on
where it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from research.experiments.comparison import Comparison, Point
from research.experiments.store import Record
from specdec.commands import columns, ended
from specdec.stats import Estimate

TEMPERATURES = (0.25, 0.5, 0.7, 0.85, 1.0, 1.15, 1.3, 1.6, 2.0)
BESIDE = 1.0
"""The target's own temperature, which the others are compared with."""


class DraftTemperature(Comparison):
    """Compares draft temperatures. A point is a tree and a temperature of the draft."""

    name = "draft_temperature"
    about = "Measure ERSD with drafts of other temperatures."
    fields = ("tree", "draft_temperature")
    seed = 0x74656D70
    same_text = True

    def points(self, trees: Sequence[str]) -> list[Point]:
        """All draft temperatures on all trees."""
        return [(tree, temperature) for tree in trees for temperature in TEMPERATURES]

    def settings(self, point: Mapping[str, Any]) -> dict[str, Any]:
        """ERSD with a draft of this temperature."""
        return super().settings(point) | {"method": "ersd"}

    def differences(self, point: Point, measured: Mapping[Point, Estimate]) -> dict[str, Estimate]:
        """The gain over a draft at the same temperature as the target."""
        return {"gain": measured[point] - measured[point[0], BESIDE]}

    def as_text(self, summary: Record) -> str:
        """One line for each tree: tokens per target call at each draft temperature."""
        points = {self.point_of(row): row["value"] for row in summary["points"]}
        rows = [["tree", *map(str, TEMPERATURES)]]
        for tree in dict.fromkeys(tree for tree, _ in points):
            rows.append([tree, *(f"{points[tree, temperature]:.3f}" for temperature in TEMPERATURES)])
        return columns(rows)


EXPERIMENT = DraftTemperature()

if __name__ == "__main__":
    with ended():
        EXPERIMENT.command()
