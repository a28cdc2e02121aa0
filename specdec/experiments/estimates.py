"""Estimates with intervals that are clustered by prompt.

Rounds of one text depend on each other and texts of one prompt may; prompts do not. A ratio of sums
over prompts, such as tokens / target calls, is linearised: each prompt has an influence on it, and the
variance is that of the sum of influences. Since all points share prompts and seeds, the difference of
two ratios has the difference of influences, which is what makes small differences visible.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from specdec.stats import IndexAcceptance

Z = 1.96
"""Standard errors of a 95% interval, for 30 prompts or more."""


@dataclass(frozen=True)
class Estimate:
    """A value, and the influence of each prompt on it by the prompt's number."""

    value: float
    influence: Mapping[int, float]

    @property
    def standard_error(self) -> float:
        """The standard error; NaN for a single prompt."""
        n = len(self.influence)
        squares = math.fsum(x * x for x in self.influence.values())
        return math.sqrt(squares * n / (n - 1)) if n > 1 else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """The ends of the 95% interval."""
        half = Z * self.standard_error
        return self.value - half, self.value + half

    def to_json(self) -> dict[str, float | None]:
        """value, low and high, the last two None where there is one prompt."""
        low, high = self.interval if len(self.influence) > 1 else (None, None)
        return {"value": self.value, "low": low, "high": high}

    def __sub__(self, other: Estimate) -> Estimate:
        return combined([self, other], [1.0, -1.0])


def ratio(parts: Mapping[int, tuple[float, float]]) -> Estimate | None:
    """Σ numerators / Σ denominators of (numerator, denominator) by prompt; None where nothing was counted."""
    total = math.fsum(below for _, below in parts.values())
    if not total:
        return None
    value = math.fsum(above for above, _ in parts.values()) / total
    return Estimate(value, {key: (above - value * below) / total for key, (above, below) in parts.items()})


def tokens_per_call(runs: Iterable[Mapping[str, Any]]) -> Estimate:
    """Tokens per target call of runs with `prompt`, `tokens` and `rounds`. ValueError where there is none."""
    parts: dict[int, tuple[float, float]] = {}
    for run in runs:
        above, below = parts.get(run["prompt"], (0, 0))
        parts[run["prompt"]] = above + run["tokens"], below + run["rounds"]
    estimate = ratio(parts)
    if estimate is None:
        raise ValueError("no runs: measure first")
    return estimate


def combined(estimates: Sequence[Estimate], weights: Sequence[float]) -> Estimate:
    """Σ weight · estimate, dependence between them included."""
    value = math.fsum(w * e.value for w, e in zip(weights, estimates, strict=True))
    prompts = sorted({prompt for e in estimates for prompt in e.influence})
    influence = {
        prompt: math.fsum(w * e.influence.get(prompt, 0.0) for w, e in zip(weights, estimates, strict=True))
        for prompt in prompts
    }
    return Estimate(value, influence)


def mean(estimates: Sequence[Estimate]) -> Estimate:
    """The mean of estimates."""
    return combined(estimates, [1 / len(estimates)] * len(estimates))


def marginal(accepted: Sequence[int], offered: Sequence[int]) -> list[dict[str, float | None]]:
    """accepted / offered by child index with Wilson's 95% interval."""
    table = []
    for index, (taken, count) in enumerate(zip(accepted, offered, strict=True)):
        entry = IndexAcceptance(index, taken, count)
        low, high = entry.interval(Z)
        row: dict[str, float | None] = {"index": index, "accepted": taken, "offered": count}
        table.append(row | {"rate": entry.rate if count else None, "low": low, "high": high})
    return table
