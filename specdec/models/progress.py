"""The progress of loading a model, and the type of the function that is called with it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple

READING = threading.Lock()
"""A lock under which transformers reads weights, of one model at a time: it has one progress hook for all
models, and changes torch's default dtype for the whole process while it reads. A second load would restore
the dtype of the first."""


class Progress(NamedTuple):
    """The progress of a load. done, total: bytes fetched or weights read; 0 where nothing is counted."""

    stage: str
    """`asking` (the hub for a list of files), `fetching`, `converting` (a GGUF file), `reading` (weights),
    `checking` (the model)."""
    name: str
    done: int = 0
    total: int = 0


Report = Callable[[Progress], None]
"""A function that is called during loading. If it raises, loading ends with its exception."""


def silent(progress: Progress) -> None:
    """A `Report` that ignores the progress."""
