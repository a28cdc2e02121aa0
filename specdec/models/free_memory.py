"""The memory of a machine that is free for models: main memory, a container's share of it, and GPUs."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import psutil
import torch

_CGROUPS = (
    (".", "memory.max", "memory.current", "inactive_file"),
    ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
"""For cgroups of version 2 and of version 1: the folder, the files with a container's limit and its use, and
the entry of memory.stat with the bytes of cached files, which the system gives back on demand."""


def place(device: str) -> str:
    """The device on which a model is loaded: "cpu", "cuda:0", ...; "auto" if accelerate spreads the model.

    With accelerate, "auto" means all GPUs and the CPU; without it, the first GPU; without a GPU, the CPU.
    """
    if device == "auto":
        spread = "auto" if find_spec("accelerate") else "cuda:0"
        return spread if torch.cuda.is_available() else "cpu"
    return {"cuda": "cuda:0", "cpu:0": "cpu"}.get(device, device)


def free(where: str) -> int:
    """Bytes of memory that are free on a device. where: the device's name, as `place` returns it."""
    if where == "cpu":
        return min(psutil.virtual_memory().available, container_limit())
    if where == "auto":
        return free("cpu") + sum(free(f"cuda:{index}") for index in range(torch.cuda.device_count()))
    # Memory that torch has reserved but does not use is free as well.
    reusable = torch.cuda.memory_reserved(where) - torch.cuda.memory_allocated(where)
    return torch.cuda.mem_get_info(where)[0] + reusable


def container_limit(root: Path = Path("/sys/fs/cgroup")) -> int:
    """Bytes that this process's container may still use; 2 ** 62 without a limit.

    root: the folder of the system's cgroup files.
    """
    for folder, limit, usage, given_back in _CGROUPS:
        try:
            most = (root / folder / limit).read_text(encoding="utf-8").strip()
            used_bytes = int((root / folder / usage).read_text(encoding="utf-8"))
            lines = (root / folder / "memory.stat").read_text(encoding="utf-8").splitlines()
            entries = dict(line.split() for line in lines)
        except OSError:
            continue
        if most != "max":
            return int(most) - used_bytes + int(entries[given_back])
    return 1 << 62
