"""Helper threads of the compiled forward pass. One pass at a time uses them; others run without helpers."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

import numpy as np

from specdec.models.kernels.layout import shared_words

MOST_LAYERS = 512


class Crew:
    """The helper threads of one process. They sleep between calls; one that wakes after a call does nothing.

    take_part: the compiled forward pass. Its arguments are the addresses of the shared words and of a
    `layout.CALL`; with 0 for the second, it helps with the running call. multiply: returns the address of the
    compiled product for a type of weights. attend: that of the compiled attention for a head size.
    """

    def __init__(
        self,
        take_part: Callable[[int, int], None],
        multiply: Callable[[str], int],
        attend: Callable[[int], int],
    ):
        self._take_part, self.multiply, self.attend = take_part, multiply, attend
        self._words = np.zeros(shared_words(MOST_LAYERS), dtype=np.int64)
        self._lock = threading.Lock()
        self._asleep: list[threading.Lock] = []
        if hasattr(os, "register_at_fork"):  # threads do not survive a fork
            os.register_at_fork(after_in_child=self._forget)

    def run(self, call: int, threads: int, layers: int) -> None:
        """Run the `layout.CALL` at this address on up to `threads` threads; on one if the helpers are busy.

        threads: at most the record's `threads`, because only these have memory. layers: the number of layers.
        """
        if threads < 2 or not self._lock.acquire(blocking=False):
            words = np.zeros(shared_words(layers), dtype=np.int64)
            self._take_part(words.ctypes.data, call)
            return
        try:
            self._wake(threads - 1)
            self._take_part(self._words.ctypes.data, call)
        finally:
            self._lock.release()

    def _wake(self, count: int) -> None:
        while len(self._asleep) < count:
            self._hire()
        for asleep in self._asleep[:count]:
            if asleep.locked():
                asleep.release()

    def _hire(self) -> None:
        asleep = threading.Lock()
        asleep.acquire()
        self._asleep.append(asleep)
        threading.Thread(target=self._stand_by, args=(asleep,), name="specdec-kernels", daemon=True).start()

    def _stand_by(self, asleep: threading.Lock) -> None:
        shared = self._words.ctypes.data
        while True:
            asleep.acquire()
            self._take_part(shared, 0)

    def _forget(self) -> None:
        self._words[:] = 0
        self._lock = threading.Lock()
        self._asleep = []
