"""A pair that is loaded when it is first needed, so that the page is there before its models."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class LazyPair:
    """Stands for the pair that `load` returns; its first use waits until that is loaded, once."""

    def __init__(self, load: Callable[[], Any]):
        self._load = load
        self._lock = threading.Lock()
        self._pair: Any = None

    def load(self) -> Any:
        """The pair itself. Whatever `load` raises reaches every caller until it succeeds."""
        with self._lock:
            if self._pair is None:
                self._pair = self._load()
        return self._pair

    @property
    def loaded(self) -> bool:
        """Whether using the pair takes no time any more."""
        return self._pair is not None

    def __getattr__(self, name: str) -> Any:
        # setting is not passed on: nothing of the page changes a pair
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.load(), name)
