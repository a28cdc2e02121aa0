"""Random matrices in the blocks of GGUF files, also of the types that gguf can't write."""

from __future__ import annotations

import gguf
import numpy as np

from specdec.models.kernels.layout import QUANTISED

HALVES = {"Q4_K": 0, "Q5_K": 0, "Q6_K": 208}
"""The place of a block's 16-bit numbers, if it is not at the block's beginning."""


def block_size(kind: str) -> tuple[int, int]:
    """The values and the bytes of a block of this type."""
    return gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]


def random_blocks(kind: str, outputs: int, inputs: int, seed: int = 0, size: float = 0.01) -> np.ndarray:
    """Random blocks, uint8 [outputs, bytes of a row].

    They contain arbitrary whole numbers. The steps between weights are at most about `size`, and the weights
    of all kinds have a mean near zero."""
    draw, (values, nbytes) = np.random.default_rng(seed), block_size(kind)
    blocks = draw.integers(0, 256, (outputs, inputs // values, nbytes), dtype=np.uint8)
    form, first = QUANTISED[kind], HALVES.get(kind, 0)
    scales = draw.random((*blocks.shape[:2], 1)) * size / (64 if form.factored else 1)
    if form.minima:
        middle = ((1 << form.bits) - 1) / 2
        scales = np.concatenate([scales, scales * (middle if form.factored else -middle)], -1)
    stored = scales.astype(np.float16).view(np.uint8)
    blocks[..., first : first + stored.shape[-1]] = stored
    return blocks.reshape(outputs, -1)
