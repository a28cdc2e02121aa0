"""Attention in the forward pass of `lean`: each text attends to its own cache, with its own mask.

`TextTable` describes the texts to a forward pass in a CUDA graph; `fused` has the attention of that pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

MOST_ROWS = 512
"""The most tokens (rows) that a CUDA graph computes for all its texts, and the most pending nodes of a text.
For more tokens the GPU computes longer than the host needs to launch kernels, so a graph gains nothing."""
ALIGNED = 16
"""A CUDA graph's masks begin at a place in the cache that is a multiple of this, so reads are aligned."""

NUMBERS = 6
"""The number of columns of `TextTable.numbers`."""


class TextRows(NamedTuple):
    """The n new tokens of one text in a forward pass.

    kv: [layers, 2 x key-value heads, t, head size], a view of the cache's t visible tokens, the new ones too.
    places: the new tokens' places among these t.
    mask: additive, [1, 1, n, t]. None means plain causal attention; then the new tokens must be at the end of
    kv, and they must be one token or the whole text.
    """

    n: int
    kv: Tensor
    places: slice
    mask: Tensor | None


class TextTable(NamedTuple):
    """Tensors at fixed addresses that describe the texts of a forward pass in a CUDA graph.

    numbers: int64 [texts, 6], for each text the address of its cache's buffer, the buffer's capacity, the
    length of the prefix, the length with all pending nodes, the number of nodes to compute, and the address
    of the table of rotations. masks: [texts, rows, MOST_ROWS + ALIGNED], 0 where a node sees a pending node;
    the first pending node is in column (length of the prefix) % ALIGNED. depths: int64 [texts, rows], the
    nodes' positions relative to the end of the prefix. size: the size of a head.
    """

    numbers: Tensor
    masks: Tensor
    depths: Tensor
    size: int


class Attention:
    """Attention of one forward pass, called once per layer. Tokens of several texts are grouped by text.

    heads, kv_heads: numbers of query heads and of key-value heads. scale: the factor of the scores.
    """

    def __init__(self, heads: int, kv_heads: int, scale: float, texts: Sequence[TextRows]):
        self._counts = [text.n for text in texts]
        self._texts = [_TextAttention(heads, kv_heads, scale, text) for text in texts]

    def __call__(self, layer: int, qkv: Tensor) -> Tensor:
        """The result of attention, [n, query heads, head size]; keys and values are written to the caches.

        qkv: queries, keys, values, [query + 2 x key-value heads, n, head size]; queries and keys rotated.
        """
        if len(self._texts) == 1:
            return self._texts[0](layer, qkv)
        parts = qkv.split(self._counts, 1)
        return torch.cat([text(layer, part) for text, part in zip(self._texts, parts, strict=True)])


class _TextAttention:
    """Attention of one text. Its mask and its views of the cache are made once for all layers."""

    def __init__(self, heads: int, kv_heads: int, scale: float, text: TextRows):
        self._heads, self._kv_heads, self._scale = heads, kv_heads, scale
        self._group = heads // kv_heads
        self._causal = text.mask is None and text.n > 1
        self._mask = text.mask
        if text.mask is not None and self._group > 1:
            self._mask = text.mask.repeat(1, 1, self._group, 1)
        self._keys = text.kv[:, None, :kv_heads].unbind()  # each [1, key-value heads, t, head size]
        self._values = text.kv[:, None, kv_heads:].unbind()
        self._into = text.kv[:, :, text.places].unbind()

    def __call__(self, layer: int, qkv: Tensor) -> Tensor:
        """Attention of the new tokens of this one text; see `Attention`."""
        heads, (_, n, size) = self._heads, qkv.shape
        queries, new = qkv[:heads], qkv[heads:]
        self._into[layer].copy_(new)
        if self._group > 1 and not self._causal:
            # The queries of a group share their keys, so they become further rows of one attention, and no
            # key is copied: [key-value heads, group x n, head size].
            queries = queries.reshape(self._kv_heads, -1, size)
        mixed = F.scaled_dot_product_attention(
            queries[None],
            self._keys[layer],
            self._values[layer],
            attn_mask=self._mask,
            is_causal=self._causal,
            scale=self._scale,
            enable_gqa=self._causal and self._group > 1,
        )
        return mixed.reshape(heads, n, size).transpose(0, 1)
