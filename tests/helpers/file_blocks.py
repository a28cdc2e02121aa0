"""Random matrices in the blocks of GGUF files, also of the types that gguf can't write."""

from __future__ import annotations

import numpy as np

from specdec.models.gguf.header import BLOCKS
from specdec.models.kernels.layout import QUANTISED

HALVES = {"Q4_K": 0, "Q5_K": 0, "Q6_K": 208}
"""Where a block has its numbers of 16 bits, if not at its beginning."""


def random_blocks(kind: str, outputs: int, inputs: int, seed: int = 0, size: float = 0.01) -> np.ndarray:
    """uint8 [outputs, bytes of a row]: any whole numbers, with scales and minima below `size`."""
    draw, (_, values, nbytes) = np.random.default_rng(seed), BLOCKS[kind]
    blocks = draw.integers(0, 256, (outputs, inputs // values, nbytes), dtype=np.uint8)
    parts, first = 1 + QUANTISED[kind].minima, HALVES.get(kind, 0)
    scales = (draw.random((*blocks.shape[:2], parts)) * size).astype(np.float16)
    blocks[..., first : first + 2 * parts] = scales.view(np.uint8)
    return blocks.reshape(outputs, -1)
