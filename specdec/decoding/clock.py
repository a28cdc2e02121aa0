"""Times the parts of a round. On a GPU, a part may still be computed while the program already goes on."""

from __future__ import annotations

import time
from itertools import pairwise

import torch


class Clock:
    """Seconds of consecutive parts (laps) of a round, without waiting for a device at their ends.

    On a GPU, `launched` puts an event into the GPU's stream: the lap ends when the GPU has finished the work
    launched before the event. `seconds` reads the time of the event. On other devices, `launched` ends the
    lap at once. `lap` ends it at once on every device.
    """

    def __init__(self, device: torch.device):
        self._cuda = device if device.type == "cuda" else None
        self._began = time.perf_counter()
        self._first = None if self._cuda is None else self._event()
        self._ends: list[float | torch.cuda.Event] = [self._began]

    def begin(self) -> None:
        """Start the first lap now. The caller has just waited for the GPU to reach the lap's first event."""
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
