"""A matrix product by `tiles` outside of a forward pass. The result has the same bits on every processor."""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from specdec.models.kernels import compiled
from specdec.models.kernels.layout import LANES, PART
from specdec.models.kernels.packing import pack
from specdec.models.kernels.tiles import rounded_inputs

_MULTIPLY = ctypes.CFUNCTYPE(None, *(ctypes.c_int64,) * 8)


def product(x: Tensor, weight: Tensor, kind: str, address: int | None = None) -> Tensor:
    """x [rows, inputs] float32 times the transposed weight [outputs, inputs], as float32 [rows, outputs].

    kind: the type in which the weight is packed. address: that of a compiled `tiles.multiply` for this type;
    None uses that of the compiled forward pass, which must be available (`compiled.crew`).
    """
    threads = compiled.crew()
    assert address or threads, "there are no compiled products"
    multiply = _MULTIPLY(address or threads.multiply(kind))  # type: ignore[union-attr]
    packed, x = pack(weight, None, kind), rounded_inputs(x, kind)
    rows, blocks = len(x), len(packed.weights)
    steps, block_bytes = packed.weights.shape[1], packed.weights[0].nbytes
    out = torch.empty(rows, packed.outputs, dtype=torch.float32)
    part = torch.empty(rows, PART, dtype=torch.float32)
    for first in range(0, blocks, PART // LANES):
        count = min(PART // LANES, blocks - first)
        place = packed.weights.data_ptr() + first * block_bytes
        multiply(place, block_bytes, steps, x.data_ptr(), x[0].nbytes, rows, part.data_ptr(), count)
        out[:, first * LANES : (first + count) * LANES] = part[:, : count * LANES]
    if packed.scales is not None:
        out *= packed.scales
    return out[:, : len(weight)]
