"""splitmix64 as a counter-based hash: number i of a key is the generator's i-th output from the state `key`.

Each number can be computed alone. The three forms in this file give the same bits: Python integers for single
numbers; numpy for whole vocabularies on a CPU, in a third of torch's time; and torch for other devices.
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
"""The number of leading bits that the hash's last step does not change: they can be compared before it."""
BLOCK = 1 << 14
"""The numbers of random numbers that are computed at once, so that they stay in a CPU's cache."""
_BELOW_ONE = 1 - 2.0**-53  # the largest of 2**53 uniforms would round to one


def mix(state: int) -> int:
    """The output of splitmix64 for a state: a 64-bit hash of an integer, which is taken modulo 2**64."""
    z = state & MASK
    z = ((z ^ (z >> _SHIFTS[0])) * _FACTORS[0]) & MASK
    z = ((z ^ (z >> _SHIFTS[1])) * _FACTORS[1]) & MASK
    return z ^ (z >> _SHIFTS[2])


def uniform(key: int, index: int) -> float:
    """Number `index` of this key as a uniform on (0, 1), ends excluded, from the hash's upper 53 bits."""
    return min(((mix(key + (index + 1) * GOLDEN) >> 11) + 0.5) * 2.0**-53, _BELOW_ONE)


def parts(count: int) -> list[slice]:
    """Slices of the range from 0 to count - 1, each so small that its numbers stay in a CPU's cache.
    Allocating memory for the whole range would take ten times as long as the computation."""
    return [slice(start, min(start + BLOCK, count)) for start in range(0, count, BLOCK)]


def blocks(keys: Sequence[int], count: int) -> Iterator[tuple[slice, slice, np.ndarray]]:
    """Yields the uniforms 0 to count - 1 of each key on a CPU, block by block.

    Each item is the slice of the keys, the slice of the indices, and the uniforms, float64 [keys, part],
    which the caller may change. If `count` is small, several keys share a block, because each call of numpy
    costs time too.
    """
    together = max(1, BLOCK // count)
    for first in range(0, len(keys), together):
        some = slice(first, min(first + together, len(keys)))
        starts = np.array(keys[some], dtype=np.uint64)[:, None]
        for part in parts(count):
            yield some, part, _to_unit(_mixed(_counters(part.start, part.stop) + starts))


def below(key: int, count: int, limit: int) -> np.ndarray:
    """The indices below `count` whose uniform is below limit / 2**COARSE, in order, int64, on a CPU.

    limit: an integer from 0 to 2**COARSE - 1.
    """
    bound = np.uint64(limit << (64 - COARSE))
    indices = [
        np.flatnonzero(_mixed(_counters(part.start, part.stop) + np.uint64(key), last=False) < bound)
        + part.start
        for part in parts(count)
    ]
    return np.concatenate(indices)


def at(key: int, indices: np.ndarray) -> np.ndarray:
    """The uniforms of this key at these indices, float64, computed on a CPU."""
    states = (indices.astype(np.uint64) + np.uint64(1)) * np.uint64(GOLDEN) + np.uint64(key)
    return _to_unit(_mixed(states))


@lru_cache(maxsize=32)
def _counters(start: int, stop: int) -> np.ndarray:
    return np.arange(start + 1, stop + 1, dtype=np.uint64) * np.uint64(GOLDEN)


def _mixed(z: np.ndarray, last: bool = True) -> np.ndarray:
    """`mix` on uint64 numbers, in place; products wrap around. last: whether to do the last step of `mix`."""
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
    result = np.add(bits.view(np.int64), 0.5)  # the same values, converted in half the time
    result *= 2.0**-53
    # rounding to 1 is rare, and the minimum of all numbers would take four times as long as this check
    if result.max(initial=0.0) == 1:
        np.minimum(result, _BELOW_ONE, out=result)
    return result


def uniforms_on(device: torch.device, keys: Sequence[int], count: int) -> Tensor:
    """The uniforms 0 to count - 1 of each key, float64 [keys, count], computed on a device."""
    rows = upload([_signed(key) for key in keys], device)
    counters = torch.arange(1, count + 1, device=device) * _signed(GOLDEN)
    z = rows[:, None] + counters
    for bits, factor in zip(_SHIFTS, _FACTORS, strict=False):
        z.bitwise_xor_(_shifted(z, bits)).mul_(_signed(factor))
    z.bitwise_xor_(_shifted(z, _SHIFTS[2]))
    return _shifted(z, 11).double().add_(0.5).mul_(2.0**-53).clamp_max_(_BELOW_ONE)


def _shifted(z: Tensor, bits: int) -> Tensor:
    """A logical shift to the right. torch's shift copies the sign bit, so a mask clears these copies."""
    return (z >> bits).bitwise_and_((1 << (64 - bits)) - 1)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value
