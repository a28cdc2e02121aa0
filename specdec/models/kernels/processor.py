"""What the processor can that Numba compiles for: this one, or the one that it is told to play."""

from __future__ import annotations

import platform

from llvmlite import binding
from numba import config


def has(feature: str) -> bool:
    """Whether it has a feature, in LLVM's words: of `NUMBA_CPU_FEATURES` where that is set."""
    named = config.CPU_FEATURES  # type: ignore[attr-defined]  # made from the environment
    if named is not None:
        return f"+{feature}" in named.split(",")
    return bool(binding.get_host_cpu_features().get(feature))


def multiplies_and_adds() -> bool:
    """Whether it has fused multiply-add: without it each is a call."""
    return platform.machine().lower() in ("arm64", "aarch64") or has("fma")
