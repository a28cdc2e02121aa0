"""Formats numbers and lists for sentences and tables about experiments, on the web page and in
reports."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

MISSING = "–"
VERDICTS = {True: "found", False: "not found", None: "not measured"}
"""The words for whether the data show what a statement says."""


def number(value: float | None) -> str:
    """A number with at least three significant digits, two decimals from 1 on, and a true minus sign."""
    if value is None:
        return MISSING
    digits = 2 if abs(value) >= 1 else min(6, 2 - math.floor(math.log10(abs(value)))) if value else 0
    return f"{value:.{digits}f}".replace("-", "−")


def interval(row: Mapping[str, Any]) -> str:
    """An interval as text: "low to high"."""
    if row["low"] is None or row["high"] is None:
        return MISSING
    return f"{number(row['low'])} to {number(row['high'])}"


def with_interval(row: Mapping[str, Any]) -> str:
    """A value as text, followed by its interval in brackets if it has one."""
    around = interval(row)
    return number(row["value"]) + (f" ({around})" if around != MISSING else "")


def listed(parts: Sequence[str], between: str = ", ") -> str:
    """The parts, joined by commas, with "and" before the last part. Another separator replaces "and" too."""
    *most, last = parts or ["nothing"]
    return f"{between.join(most)}{' and ' if between == ', ' else between}{last}" if most else last
