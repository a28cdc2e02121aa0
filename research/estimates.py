"""Estimates block efficiency and other ratios from rows of results, with confidence intervals.

The rounds of one text are statistically dependent, and so may be the texts of one prompt. Prompts are
independent. A ratio of sums over prompts, such as tokens / target calls, is linearised: each prompt has an
influence on the ratio, and the ratio's variance is the variance of the sum of all influences. For the
difference of two ratios over the same prompts, the influences of each prompt are subtracted, so that even
small differences become visible.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from specdec.stats import Z

Row = dict[str, Any]  # the measured values of one text, or of one setting (a point of a figure), by name


class Estimate(NamedTuple):
    """An estimated value. influence: by prompt number, how much the prompt changes the value (linearised)."""

    value: float
    influence: Mapping[int, float]

    @property
    def standard_error(self) -> float:
        """The standard error of the value; NaN for a single prompt."""
        n = len(self.influence)
        squares = math.fsum(x * x for x in self.influence.values())
        return math.sqrt(squares * n / (n - 1)) if n > 1 else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """The lower and the upper end of the estimate's 95% confidence interval."""
        half = Z * self.standard_error
        return self.value - half, self.value + half

    def to_json(self) -> dict[str, float | None]:
        """The value, and `low` and `high`, the ends of its interval, which are None for a single prompt."""
        low, high = self.interval if len(self.influence) > 1 else (None, None)
        return {"value": self.value, "low": low, "high": high}

    def __sub__(self, other: "Estimate") -> "Estimate":
        return combined([self, other], [1.0, -1.0])


def quotient(rows: Iterable[Row], above: str, below: str, cluster: str = "prompt") -> Estimate:
    """Σ above / Σ below over rows, where Σ below must be above 0. Rows of one cluster may be dependent."""
    sums = {
        key: [math.fsum(row[name] for row in some) for name in (above, below)]
        for (key,), some in grouped(rows, cluster).items()
    }
    top, bottom = map(math.fsum, zip(*sums.values()))
    value = top / bottom
    return Estimate(value, {key: (own - value * size) / bottom for key, (own, size) in sums.items()})


def combined(estimates: Sequence[Estimate], weights: Sequence[float]) -> Estimate:
    """The sum of weight x estimate. Its interval takes the dependence of the estimates into account."""
    pairs = list(zip(weights, estimates, strict=True))
    influence = {
        prompt: math.fsum(weight * each.influence.get(prompt, 0.0) for weight, each in pairs)
        for prompt in sorted({prompt for each in estimates for prompt in each.influence})
    }
    return Estimate(math.fsum(weight * each.value for weight, each in pairs), influence)


def mean(estimates: Sequence[Estimate]) -> Estimate:
    """The mean of several estimates, as an estimate."""
    return combined(estimates, [1 / len(estimates)] * len(estimates))


def key_of(row: Row, fields: Iterable[str]) -> tuple[Any, ...]:
    """The values of these fields in a row."""
    return tuple(row[name] for name in fields)


def grouped(rows: Iterable[Row], *fields: str) -> dict[tuple[Any, ...], list[Row]]:
    """Groups of rows with equal values of these fields, in the order of each group's first row."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(key_of(row, fields), []).append(row)
    return groups


def finished(rows: Sequence[Row], *fields: str) -> list[Row]:
    """The rows of the texts that were measured at all points. fields: the names that identify a text."""
    counts = Counter(key_of(row, fields) for row in rows)
    return [row for row in rows if counts[key_of(row, fields)] == max(counts.values())]
