"""splitmix64 as a counter-based hash: number i of a key is the generator's i-th output from that state.

Any number can be had by itself, and they are the same bits in all three forms below: Python integers for
single ones, numpy for whole vocabularies on a CPU (a third of torch's time), torch for other devices.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from specdec.devices import upload

GOLDEN = 0x9E3779B97F4A7C15
MASK = (1 << 64) - 1
_FACTORS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_SHIFTS = (30, 27, 31)
COARSE = 31
"""Bits of a number that the last step of the hash leaves alone: these can be compared without it."""
_BLOCK = 1 << 14  # numbers that stay in a CPU's cache
_BELOW_ONE = 1 - 2.0**-53  # the largest of 2**53 uniforms would round to one


def mix(state: int) -> int:
    """The generator's output function, on any integer modulo 2**64."""
    z = state & MASK
    z = ((z ^ (z >> _SHIFTS[0])) * _FACTORS[0]) & MASK
    z = ((z ^ (z >> _SHIFTS[1])) * _FACTORS[1]) & MASK
    return z ^ (z >> _SHIFTS[2])


def uniform(key: int, index: int) -> float:
    """Number `index` of this key, on (0, 1), both ends excluded, from the upper 53 bits."""
    return min(((mix(key + (index + 1) * GOLDEN) >> 11) + 0.5) * 2.0**-53, _BELOW_ONE)


def parts(count: int) -> list[slice]:
    """Numbers 0 to count - 1 in parts that stay in a CPU's cache: to have new memory for all of them takes
    ten times as long as to compute with them."""
    return [slice(start, min(start + _BLOCK, count)) for start in range(0, count, _BLOCK)]


def blocks(keys: Sequence[int], count: int) -> Iterator[tuple[slice, slice, np.ndarray]]:
    """Numbers 0 to count - 1 of each key on a CPU: some keys, a part of the numbers, and these [keys, part].

    float64, to be changed at will. Several keys at once where they are short: numpy's calls cost as well.
    """
    together = max(1, _BLOCK // count)
    for first in range(0, len(keys), together):
        some = slice(first, min(first + together, len(keys)))
        starts = np.array(keys[some], dtype=np.uint64)[:, None]
        for part in parts(count):
            yield some, part, _to_unit(_mixed(_counters(part.start, part.stop) + starts))


def below(key: int, count: int, limit: int) -> np.ndarray:
    """Which of the numbers 0 to count - 1 of this key are below limit / 2**COARSE, on a CPU; int64, in order.

    limit: an integer from 0 to 2**COARSE - 1.
    """
    bound = np.uint64(limit << (64 - COARSE))
    found = [
        np.flatnonzero(_mixed(_counters(part.start, part.stop) + np.uint64(key), last=False) < bound)
        + part.start
        for part in parts(count)
    ]
    return np.concatenate(found)


def at(key: int, indices: np.ndarray) -> np.ndarray:
    """The numbers of this key at `indices`, float64, on a CPU."""
    states = (indices.astype(np.uint64) + np.uint64(1)) * np.uint64(GOLDEN) + np.uint64(key)
    return _to_unit(_mixed(states))


@lru_cache(maxsize=32)
def _counters(start: int, stop: int) -> np.ndarray:
    return np.arange(start + 1, stop + 1, dtype=np.uint64) * np.uint64(GOLDEN)


def _mixed(z: np.ndarray, last: bool = True) -> np.ndarray:
    """`mix` on uint64, in place; their products wrap around. last: with its last step."""
    shifted = np.empty_like(z)
    for bits, factor in zip(_SHIFTS, _FACTORS, strict=False):
        np.right_shift(z, np.uint64(bits), out=shifted)
        np.bitwise_xor(z, shifted, out=z)
        np.multiply(z, np.uint64(factor), out=z)
    if last:
        np.right_shift(z, np.uint64(_SHIFTS[2]), out=shifted)
        np.bitwise_xor(z, shifted, out=z)
    return z


def _to_unit(bits: np.ndarray) -> np.ndarray:
    np.right_shift(bits, np.uint64(11), out=bits)
    result = np.add(bits, 0.5)
    result *= 2.0**-53
    return np.minimum(result, _BELOW_ONE, out=result)


def uniforms_on(device: torch.device, keys: Sequence[int], count: int) -> Tensor:
    """Numbers 0 to count - 1 of each key, float64 [keys, count], on a device."""
    rows = upload([_signed(key) for key in keys], device)
    counters = torch.arange(1, count + 1, device=device) * _signed(GOLDEN)
    z = rows[:, None] + counters
    for bits, factor in zip(_SHIFTS, _FACTORS, strict=False):
        z.bitwise_xor_(_shifted(z, bits)).mul_(_signed(factor))
    z.bitwise_xor_(_shifted(z, _SHIFTS[2]))
    return _shifted(z, 11).double().add_(0.5).mul_(2.0**-53).clamp_max_(_BELOW_ONE)


def _shifted(z: Tensor, bits: int) -> Tensor:
    """Logical shift to the right: torch's is arithmetic, the mask clears the copies of the sign."""
    return (z >> bits).bitwise_and_((1 << (64 - bits)) - 1)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value
