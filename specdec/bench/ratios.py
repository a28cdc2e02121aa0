"""Medians and paired ratios: on a shared machine single times have long tails."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

RESAMPLES = 2000


class Ratio(NamedTuple):
    """How many times as fast, with a 95% interval; the interval is NaN for a single pair."""

    value: float
    low: float
    high: float


def paired_ratio(baseline: Sequence[float], seconds: Sequence[float]) -> Ratio:
    """Median of baseline / seconds, run by run, with a bootstrap percentile interval over the pairs.

    Both lists are in the same order of prompts and repeats, and positive. ValueError where they are not
    of one length, or empty.
    """
    if len(baseline) != len(seconds) or not baseline:
        raise ValueError(f"{len(baseline)} and {len(seconds)} runs do not make pairs")
    ratios = np.divide(baseline, seconds)
    if len(ratios) == 1:
        return Ratio(float(ratios[0]), float("nan"), float("nan"))
    drawn = np.random.default_rng(0).integers(len(ratios), size=(RESAMPLES, len(ratios)))
    low, high = np.quantile(np.median(ratios[drawn], axis=1), (0.025, 0.975))
    return Ratio(float(np.median(ratios)), float(low), float(high))


def median_rate(tokens: Sequence[int], seconds: Sequence[float]) -> float:
    """Median over runs of tokens per second."""
    return statistics.median(n / s for n, s in zip(tokens, seconds, strict=True))
