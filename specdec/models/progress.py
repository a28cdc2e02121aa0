"""The progress of loading a model, and the type of the function that is called with it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple

READING = threading.Lock()
"""The lock that a thread holds while transformers reads weights, for one model at a time. While it reads,
transformers changes torch's default dtype and uses one progress hook, both for the whole process. A second
load at the same time would end with the dtype of the first."""


class Progress(NamedTuple):
    """How far a load has come. done, total: bytes fetched or weights read; both 0 if nothing is counted."""

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
