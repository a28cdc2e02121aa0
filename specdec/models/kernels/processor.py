"""Features of the processor that Numba compiles for: this one, or the one that it is set to."""

from __future__ import annotations

import platform

from llvmlite import binding
from numba import config


def has(feature: str) -> bool:
    """Whether it has a feature, by LLVM's name; `NUMBA_CPU_FEATURES` replaces the list of this processor."""
    named = config.CPU_FEATURES  # type: ignore[attr-defined]  # made from the environment
    if named is not None:
        return f"+{feature}" in named.split(",")
    return bool(binding.get_host_cpu_features().get(feature))


def multiplies_and_adds() -> bool:
    """Whether it has fused multiply-add; without it each would be a function call."""
    return platform.machine().lower() in ("arm64", "aarch64") or has("fma")
