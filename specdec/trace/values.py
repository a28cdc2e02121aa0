"""The types of the records' fields: whole numbers, probabilities, seconds and names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from specdec.methods import METHODS

MOST_WHOLE = 2**53 - 1
"""The largest whole number that every reader of JSON keeps exactly, including JavaScript."""
Count = Annotated[int, Field(ge=0, le=MOST_WHOLE)]
Seed = Annotated[int, Field(ge=0, lt=2**64)]
Number = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Probability = Annotated[float, Field(ge=0, le=1 + 1e-6, allow_inf_nan=False, description="a probability")]
"""A probability. Its limit is slightly above 1, because of rounding."""
Duration = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
"""Seconds, at most 1e9. No run takes as long, and sums of such times stay finite."""
Path = tuple[Count, ...]
"""A node of the draft tree, named by the 0-based child indices from the root to it; the root is `()`."""

if TYPE_CHECKING:  # the methods of the catalogue are known only when the program runs
    Method = str
else:
    Method = Literal[tuple(METHODS)]
Finish = Literal["length", "context", "eos"]
Status = Literal["accepted", "rejected", "unvisited"]
