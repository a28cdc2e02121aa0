"""Features of the processor for which Numba compiles: this one, unless Numba's settings name another."""

from __future__ import annotations

import platform

import torch
from llvmlite import binding
from numba import config
from numba.core.codegen import get_host_cpu_features


def has(feature: str) -> bool:
    """Whether the processor has a feature, by LLVM's name. If `NUMBA_CPU_FEATURES` is set, only it counts."""
    features = config.CPU_FEATURES  # type: ignore[attr-defined]  # made from the environment
    if features is not None:
        return f"+{feature}" in features.split(",")
    return f"+{feature}" in get_host_cpu_features().split(",")  # without those that Numba turns off


def multiplies_and_adds() -> bool:
    """Whether the processor has fused multiply-add. Otherwise LLVM calls a slow function for each."""
    return platform.machine().lower() in ("arm64", "aarch64") or has("fma")


def dots_signed_bytes() -> bool:
    """Whether the processor has ARM's `sdot`, which adds products of four pairs of int8.

    LLVM does not list this feature of the machine that it runs on, but knows that processors with these names
    have it.
    """
    return has("dotprod") or _name().startswith(("apple-m", "neoverse-", "cortex-a76"))


def description() -> str:
    """Name and features of the processor that Numba compiles for, and the instructions that torch uses."""
    features = config.CPU_FEATURES  # type: ignore[attr-defined]
    if features is None:
        features = ",".join(name for name, flag in sorted(binding.get_host_cpu_features().items()) if flag)
    return f"{_name()} {features} {torch.backends.cpu.get_cpu_capability()}"


def _name() -> str:
    """LLVM's name of the processor that Numba compiles for."""
    return str(config.CPU_NAME or binding.get_host_cpu_name())  # type: ignore[attr-defined]
