"""Prints a message on the error stream while work takes longer than two seconds."""

from __future__ import annotations

import sys
import time
from threading import Event, Thread
from types import TracebackType

PATIENCE = 2.0
"""The seconds that pass before the message."""


class Waiting:
    """Prints `words`, the name of the work, if the block takes longer than `PATIENCE` seconds.

    On a terminal, one line counts the seconds and is erased at the end. Elsewhere the message appears once.
    """

    def __init__(self, words: str):
        self.words = words
        self._over = Event()
        self._thread = Thread(target=self._tell, daemon=True)

    def __enter__(self) -> Waiting:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _tell(self) -> None:
        start, out = time.monotonic(), sys.stderr
        if self._over.wait(PATIENCE):
            return
        if not out.isatty():
            print(f"{self.words} ...", file=out, flush=True)
            return
        while True:
            print(f"\r{self.words} ... {time.monotonic() - start:.0f} s\033[K", end="", file=out, flush=True)
            if self._over.wait(1):
                break
        print("\r\033[K", end="", file=out, flush=True)
