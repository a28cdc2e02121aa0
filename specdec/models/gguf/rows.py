"""Rows of a GGUF file's matrices as float32 numbers."""

from __future__ import annotations

import numpy as np

from specdec.models.gguf.fields import fields
from specdec.models.kernels.layout import QUANTISED

PLAIN = ("F32", "F16", "BF16")
"""Types that store one number after the other."""


def rows_of(raw: np.ndarray, kind: str) -> np.ndarray:
    """float32 [rows, numbers] of rows as a file has them, uint8 [rows, bytes].

    kind: one of `PLAIN` or `QUANTISED`.
    """
    if kind in QUANTISED:
        return fields(raw, kind).values(kind)
    raw = np.ascontiguousarray(raw)
    if kind == "BF16":
        return (raw.view("<u2").astype(np.uint32) << np.uint32(16)).view(np.float32)
    return raw.view("<f4" if kind == "F32" else "<f2").astype(np.float32)
