"""Helper threads of a compiled forward: as many as torch has, or none while another forward has them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

import numpy as np

from specdec.models.kernels.layout import shared_words

MOST_LAYERS = 512


class Crew:
    """The helper threads of one process. They sleep between calls. A thread that wakes up late finds the call
    done.

    take_part: the compiled forward; it takes the addresses of the shared words and of a call, or 0 to help.
    multiply, attend: give the addresses of the compiled products of a kind of weights, and of the compiled
    attention of heads of a size, for plans.
    """

    def __init__(
        self,
        take_part: Callable[[int, int], None],
        multiply: Callable[[str], int],
        attend: Callable[[int], int],
    ):
        self._take_part, self.multiply, self.attend = take_part, multiply, attend
        self._words = np.zeros(shared_words(MOST_LAYERS), dtype=np.int64)
        self._taken = threading.Lock()
        self._asleep: list[threading.Lock] = []
        if hasattr(os, "register_at_fork"):  # threads don't come along
            os.register_at_fork(after_in_child=self._forget)

    def run(self, call: int, threads: int, layers: int) -> None:
        """Run a call, given by its address, on up to `threads` threads; on one if the helpers are busy.

        threads: at most those of the call (`layout.CALL`), which has memory for no more.
        """
        if threads < 2 or not self._taken.acquire(blocking=False):
            words = np.zeros(shared_words(layers), dtype=np.int64)
            self._take_part(words.ctypes.data, call)
            return
        try:
            self._wake(threads - 1)
            self._take_part(self._words.ctypes.data, call)
        finally:
            self._taken.release()

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
        self._taken = threading.Lock()
        self._asleep = []
