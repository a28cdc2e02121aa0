"""Block efficiency and other ratios, with intervals for texts that depend on each other.

The rounds of one text depend on each other, and so may the texts of one prompt. Prompts are independent. A
ratio of sums over prompts, such as tokens / target calls, is linearised: each prompt has an influence on the
ratio, and the ratio's variance is the variance of the sum of influences. The influences on the difference of
two ratios over the same prompts are the differences of their influences, so that small differences become
visible.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from specdec.stats import Z


@dataclass(frozen=True)
class Estimate:
    """A value, and the influence of each prompt on it, by the prompt's number."""

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
        """The value and the ends of its interval (`low`, `high`), which are None for a single prompt."""
        low, high = self.interval if len(self.influence) > 1 else (None, None)
        return {"value": self.value, "low": low, "high": high}

    def __sub__(self, other: Estimate) -> Estimate:
        return combined([self, other], [1.0, -1.0])


def ratio(parts: Mapping[int, tuple[float, float]]) -> Estimate | None:
    """Σ numerators / Σ denominators, from a (numerator, denominator) for each prompt.

    None if the denominators sum to 0.
    """
    total = math.fsum(below for _, below in parts.values())
    if not total:
        return None
    value = math.fsum(above for above, _ in parts.values()) / total
    return Estimate(value, {key: (above - value * below) / total for key, (above, below) in parts.items()})


def combined(estimates: Sequence[Estimate], weights: Sequence[float]) -> Estimate:
    """Σ weight · estimate, with an interval that takes their dependence into account."""
    value = math.fsum(w * e.value for w, e in zip(weights, estimates, strict=True))
    prompts = sorted({prompt for e in estimates for prompt in e.influence})
    influence = {
        prompt: math.fsum(w * e.influence.get(prompt, 0.0) for w, e in zip(weights, estimates, strict=True))
        for prompt in prompts
    }
    return Estimate(value, influence)


def mean(estimates: Sequence[Estimate]) -> Estimate:
    """The mean of estimates, as an estimate."""
    return combined(estimates, [1 / len(estimates)] * len(estimates))
