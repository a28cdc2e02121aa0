"""Measures the times of the parts of a round, also on a GPU, which computes while the program goes on."""

from __future__ import annotations

import time
from itertools import pairwise

import torch


class Clock:
    """Seconds of consecutive parts (laps) of a round, without waiting for a device at their ends.

    `launched` ends a lap when the GPU has finished the work launched so far: an event in the GPU's stream
    marks this moment, and `seconds` reads it. On other devices, `launched` ends the lap at once, as `lap`
    does on all devices.
    """

    def __init__(self, device: torch.device):
        self._cuda = device if device.type == "cuda" else None
        self._began = time.perf_counter()
        self._first = None if self._cuda is None else self._event()
        self._ends: list[float | torch.cuda.Event] = [self._began]

    def begin(self) -> None:
        """The first lap begins now on the program's clock. Its event is one that the GPU has just reached."""
        self._ends[0] = self._began = time.perf_counter()

    def launched(self) -> None:
        """End the lap at the moment when all work that was launched so far is done."""
        self._ends.append(time.perf_counter() if self._cuda is None else self._event())

    def lap(self) -> None:
        """End the present lap now, and begin the next one."""
        self._ends.append(time.perf_counter())

    def seconds(self) -> list[float]:
        """The seconds of each lap. This waits until all launched work is done."""
        times = [self._time(end) for end in self._ends]
        return [max(end - start, 0.0) for start, end in pairwise(times)]

    def _event(self) -> torch.cuda.Event:
        return torch.cuda.current_stream(self._cuda).record_event(torch.cuda.Event(enable_timing=True))

    def _time(self, end: float | torch.cuda.Event) -> float:
        if isinstance(end, float):
            return end
        assert self._first is not None, "a lap that ends with an event needs an event before the first lap"
        end.synchronize()
        return self._began + self._first.elapsed_time(end) / 1000  # torch measures milliseconds
