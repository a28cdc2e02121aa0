"""Small numbers on their way to where the models compute."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def upload(numbers: Sequence[float], device: torch.device, dtype: torch.dtype = torch.int64) -> Tensor:
    """[n] on a device, which is not waited for."""
    if device.type != "cuda":
        return torch.tensor(numbers, dtype=dtype, device=device)
    # from other memory the copy would wait for all that was launched before
    return torch.tensor(numbers, dtype=dtype, pin_memory=True).to(device, non_blocking=True)


def processor() -> str:
    """What else decides the last bits of logits on a CPU: torch, its instructions, its threads."""
    threads = torch.get_num_threads()
    return f"torch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}, {threads} threads"
