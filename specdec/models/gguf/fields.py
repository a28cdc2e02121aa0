"""Reads matrices of a GGUF file: as small whole numbers with their scales (`Fields`), or as float32.

The block layouts are those of ggml (`ggml-common.h`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from specdec.models.kernels.layout import QUANTISED
from specdec.models.kernels.quantised import Fields

PLAIN = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}
"""GGUF's types that are not quantised, each with torch's name of the type."""


def rows_of(raw: np.ndarray, kind: str) -> np.ndarray:
    """Matrix rows as float32 [rows, numbers], from the bytes of these rows in the file, uint8 [rows, bytes].

    kind: the type of the tensor in the file, one of `PLAIN` or `QUANTISED`.
    """
    if kind in QUANTISED:
        return fields(raw, kind).values(kind)
    raw = np.ascontiguousarray(raw)
    if kind == "BF16":
        return (raw.view("<u2").astype(np.uint32) << np.uint32(16)).view(np.float32)
    return raw.view("<f4" if kind == "F32" else "<f2").astype(np.float32)


def fields(raw: np.ndarray, kind: str) -> Fields:
    """The quantised numbers and the scales of a matrix, from its bytes in the file.

    raw: uint8 [outputs, bytes of a row]; each row consists of blocks. kind: one of `QUANTISED`.
    """
    block_bytes, read = _READERS[kind]
    q, factors, wholes = read(raw.reshape(len(raw), -1, block_bytes))
    if wholes is not None:
        wholes = wholes.reshape(len(raw), -1, wholes.shape[-1]).view(np.int8)
    return Fields(q.reshape(len(raw), -1), factors, wholes)


Read = tuple[np.ndarray, np.ndarray, np.ndarray | None]


def _halves(blocks: np.ndarray, first: int, count: int) -> np.ndarray:
    """The `count` float16 numbers that begin at byte `first` of each block, [outputs, units, count]."""
    return np.ascontiguousarray(blocks[..., first : first + 2 * count]).view(np.float16)


def _nibbles(data: np.ndarray, width: int) -> np.ndarray:
    """Splits bytes into four-bit numbers; of each `width` bytes, first all low halves, then the high ones."""
    parts = data.reshape(*data.shape[:-1], -1, 1, width)
    return np.concatenate([parts & 15, parts >> 4], -2).reshape(*data.shape[:-1], -1)


def _legacy(minima: int, more: bool) -> Callable[[np.ndarray], Read]:
    """A function that reads blocks of Q4_0, Q4_1, Q5_0, Q5_1. minima: 1 for Q4_1, Q5_1. more: True for Q5."""

    def read(blocks: np.ndarray) -> Read:
        first = 2 * (1 + minima)
        q = _nibbles(blocks[..., first + 4 * more :], 16)
        if more:
            bits = np.unpackbits(blocks[..., first : first + 4], axis=-1, bitorder="little")
            q |= bits << 4
        return q, _halves(blocks, 0, 1 + minima), None

    return read


def _with_minima(blocks: np.ndarray) -> Read:
    """Reads blocks of Q4_K and of Q5_K, which has 32 more bytes per block: the fifth bit of each number."""
    low, high, more = (blocks[..., first : first + 4] for first in (4, 8, 12))
    scales = np.concatenate([low & 63, more & 15 | (low >> 6) << 4], -1)
    minima = np.concatenate([high & 63, more >> 4 | (high >> 6) << 4], -1)
    q = _nibbles(blocks[..., -128:], 32)
    if blocks.shape[-1] == 176:
        bits = blocks[..., 16:48]
        for part in range(8):
            q[..., 32 * part : 32 * part + 32] |= (bits >> part & 1) << 4
    factors = _halves(blocks, 0, 2).copy()
    factors[..., 1] *= -1  # ggml subtracts the minima, `Quantised` adds them
    return q, factors, np.stack([scales, minima], -1)


def _six_bits(blocks: np.ndarray) -> Read:
    low = _nibbles(blocks[..., :128], 64).reshape(*blocks.shape[:-1], 2, 4, 32)
    high = blocks[..., 128:192].reshape(*blocks.shape[:-1], 2, 1, 32)
    shifts = np.array([0, 2, 4, 6], np.uint8)[:, None]
    q = low | (high >> shifts & 3) << 4
    return q.reshape(*blocks.shape[:-1], 256), _halves(blocks, 208, 1), blocks[..., 192:208, None]


_READERS: dict[str, tuple[int, Callable[[np.ndarray], Read]]] = {
    "Q4_0": (18, _legacy(0, more=False)),
    "Q4_1": (20, _legacy(1, more=False)),
    "Q5_0": (22, _legacy(0, more=True)),
    "Q5_1": (24, _legacy(1, more=True)),
    "Q8_0": (34, lambda blocks: (blocks[..., 2:] ^ 128, _halves(blocks, 0, 1), None)),
    "Q4_K": (144, _with_minima),
    "Q5_K": (176, _with_minima),
    "Q6_K": (210, _six_bits),
}
"""For each type, the bytes of a block, and the function that reads blocks."""
