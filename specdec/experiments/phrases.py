"""Numbers in sentences and tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

MISSING = "–"


def number(value: float | None) -> str:
    """Two decimals, and at least three significant digits, with a true minus sign."""
    if value is None:
        return MISSING
    digits = 2 if abs(value) >= 1 else min(6, 2 - math.floor(math.log10(abs(value)))) if value else 0
    return f"{value:.{digits}f}".replace("-", "−")


def interval(row: Mapping[str, Any]) -> str:
    """`low` to `high`, in numbers."""
    if row["low"] is None or row["high"] is None:
        return MISSING
    return f"{number(row['low'])} to {number(row['high'])}"


def with_interval(row: Mapping[str, Any]) -> str:
    """`value` with its interval in brackets, if there is one."""
    around = interval(row)
    return number(row["value"]) + (f" ({around})" if around != MISSING else "")


def listed(parts: Sequence[str], between: str = ", ") -> str:
    """Parts of a sentence, the last after "and"."""
    *most, last = parts or ["nothing"]
    return f"{between.join(most)}{' and ' if between == ', ' else between}{last}" if most else last
