"""How far the loading of a model is, and who is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Progress(NamedTuple):
    """How far the loading of a model is. done, total: bytes fetched, weights read; 0 where nothing counts."""

    stage: str
    """`asking` (the hub for a list of files), `fetching`, `converting` (a GGUF file), `reading` (weights),
    `checking` (the model)."""
    name: str
    done: int = 0
    total: int = 0


Report = Callable[[Progress], None]
"""Called while something is loaded; what it raises ends the loading and reaches the caller."""


def silent(progress: Progress) -> None:
    """The report of nobody."""
