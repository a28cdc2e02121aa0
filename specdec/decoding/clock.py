"""Where a round's time goes, also on a GPU, which goes on computing while the host does something else."""

from __future__ import annotations

import time
from itertools import pairwise

import torch


class Clock:
    """Seconds of laps, without waiting for a device at their ends.

    A lap of work that is `launched` ends on a GPU when the work does: an event in its stream, read when
    the laps are asked for. Elsewhere all laps end when they are called.
    """

    def __init__(self, device: torch.device):
        self._cuda = device if device.type == "cuda" else None
        self._began = time.perf_counter()
        self._first = None if self._cuda is None else self._event()
        self._ends: list[float | torch.cuda.Event] = [self._began]

    def launched(self) -> None:
        """Ends the lap at the moment when all work that was launched so far is done."""
        self._ends.append(time.perf_counter() if self._cuda is None else self._event())

    def lap(self) -> None:
        """Ends the lap now."""
        self._ends.append(time.perf_counter())

    def seconds(self) -> list[float]:
        """The seconds of each lap. It waits until all launched work is done."""
        times = [self._time(end) for end in self._ends]
        return [max(after - before, 0.0) for before, after in pairwise(times)]

    def _event(self) -> torch.cuda.Event:
        return torch.cuda.current_stream(self._cuda).record_event(torch.cuda.Event(enable_timing=True))

    def _time(self, end: float | torch.cuda.Event) -> float:
        if isinstance(end, float):
            return end
        assert self._first is not None, "an event ends a lap where none began the first"
        end.synchronize()
        return self._began + self._first.elapsed_time(end) / 1000  # from milliseconds
