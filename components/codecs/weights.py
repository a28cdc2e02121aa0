"""Weights that visitors send, and their distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

Weight = Annotated[float, Field(ge=0, lt=1e9)]


def shares(name: str, weights: Sequence[float]) -> list[float]:
    """The weights scaled to sum to 1. ValueError where all are 0."""
    total = math.fsum(weights)
    if not total:
        raise ValueError(f"all weights of {name} are 0; one at least must be above")
    return [weight / total for weight in weights]
