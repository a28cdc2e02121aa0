"""Devices: send integers to a device, choose a CPU's threads, and describe the machine."""

from __future__ import annotations

import os
import platform
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

READ_LATE = {"cuda"}
"""Types of devices that compute while the program goes on. The program launches the next work before it has
read the tokens from such a device, so that the device need not wait for the program."""
_around = threading.local()
ONE_GRAPH = threading.Lock()
"""The lock for CUDA graphs: a process can capture only one at a time, and only one forward pass at a time may
use a graph's inputs. Code that frees a GPU's unused memory needs the lock too: freeing breaks a capture."""


@contextmanager
def one_thread() -> Iterator[None]:
    """Run torch on one thread. For small tensors, waking other threads takes longer than it saves, and
    woken threads keep cores busy for a while. Inside this block, `all_threads` runs larger work on all."""
    before, outer = torch.get_num_threads(), getattr(_around, "threads", None)
    if before == 1:
        yield
        return
    _around.threads = outer or before
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
        _around.threads = outer


class all_threads:  # noqa: N801  no `@contextmanager`: entering a generator takes too long
    """A block in which torch runs on as many threads as before `one_thread`."""

    def __enter__(self) -> None:
        if threads := getattr(_around, "threads", None):
            torch.set_num_threads(threads)

    def __exit__(self, *_: object) -> None:
        if getattr(_around, "threads", None):
            torch.set_num_threads(1)


def usual_threads() -> int:
    """The number of torch's threads outside of `one_thread`."""
    return getattr(_around, "threads", None) or torch.get_num_threads()


def upload(numbers: Sequence[int], device: torch.device) -> Tensor:
    """These integers as int64 [n] on a device. The host does not wait for a GPU."""
    return _on_host(numbers, device).to(device, non_blocking=True)


def upload_into(place: Tensor, numbers: Sequence[int]) -> None:
    """Copies integers into an existing tensor, int64 [n]. The host does not wait for a GPU."""
    place.copy_(_on_host(numbers, place.device), non_blocking=True)


def _on_host(numbers: Sequence[int], device: torch.device) -> Tensor:
    if device.type != "cuda":
        # numpy reads a list in a third of torch's time
        return torch.from_numpy(np.array(numbers, dtype=np.int64))
    # in pinned memory: a copy from other memory would wait for all work that the GPU has still to do
    return torch.tensor(numbers, dtype=torch.int64, pin_memory=True)


def processor() -> str:
    """torch's version, instruction set and threads. The last bits of a CPU's logits depend on them."""
    threads = usual_threads()
    return f"torch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}, {threads} threads"


def machine(device: torch.device) -> dict[str, Any]:
    """A description of the machine: processor, versions, date."""
    words: dict[str, Any] = {name: version(name) for name in ("torch", "transformers")}
    words |= {"python": platform.python_version(), "processor": _processor_name()}
    words |= {"cores": os.cpu_count(), "date": time.strftime("%Y-%m-%d")}
    if device.type == "cuda":
        words |= {"gpu": torch.cuda.get_device_name(device), "cuda": torch.version.cuda}
    return words


def _processor_name() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return next((x.split(":")[1].strip() for x in lines if x.startswith("model name")), platform.machine())
