"""Attention of the forward in `lean`: each text attends to its own cache, with its own mask.

`TextTable` is the input of a forward in a CUDA graph, whose attention is in `fused`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

MOST_ROWS = 512
"""The most rows of a graph, over all its texts, and the most pending nodes of a text. A GPU computes a wider
forward for longer than the host launches it."""
ALIGNED = 16
"""Columns of a mask begin at a multiple of this place, so that a kernel reads many of them at once."""


class Heads(NamedTuple):
    """Numbers of query heads and key-value heads, the size of a head, and the factor of scores."""

    queries: int
    keys: int
    size: int
    scale: float


class TextRows(NamedTuple):
    """The n new tokens of one text in a forward.

    kv: [layers, 2 x key-value heads, t, head size], the visible part of the cache, the new tokens included.
    places: the new tokens' places in kv.
    mask: additive, [1, 1, n, t]; None for plain causal attention, if the new tokens are at the end of kv and
    are either one token or the whole text.
    """

    n: int
    kv: Tensor
    places: slice
    mask: Tensor | None


class TextTable(NamedTuple):
    """What a captured forward reads about its texts; all are tensors at fixed addresses.

    numbers: int64 [texts, 6], for each text the address of its cache's buffer, the buffer's capacity, the
    length of the prefix, the number of tokens with all pending nodes, the number of nodes that are computed,
    and the address of the table of rotations. masks: [texts, rows, MOST_ROWS + ALIGNED], 0 where a node sees
    a pending node; the first of these has column `length of the prefix % ALIGNED`. depths: int64 [texts,
    rows], the nodes' positions relative to the end of the prefix. size: of a head.
    """

    numbers: Tensor
    masks: Tensor
    depths: Tensor
    size: int


class Attention:
    """Attention of one forward, called once per layer. The rows of several texts lie text by text."""

    def __init__(self, heads: Heads, texts: Sequence[TextRows]):
        self._counts = [text.n for text in texts]
        self._texts = [_TextAttention(heads, text) for text in texts]

    def __call__(self, layer: int, qkv: Tensor) -> Tensor:
        """The result of attention, [n, query heads, head size]; keys and values are written to the caches.

        qkv: queries, keys and values [query + 2 x key-value heads, n, head size], the first two rotated.
        """
        if len(self._texts) == 1:
            return self._texts[0](layer, qkv)
        parts = qkv.split(self._counts, 1)
        return torch.cat([text(layer, part) for text, part in zip(self._texts, parts, strict=True)])


class _TextAttention:
    """One text's attention. The mask, and views of the cache for each layer, are made once per forward."""

    def __init__(self, heads: Heads, text: TextRows):
        self._heads = heads
        self._group = heads.queries // heads.keys
        self._causal = text.mask is None and text.n > 1
        self._mask = text.mask
        if text.mask is not None and self._group > 1:
            self._mask = text.mask.repeat(1, 1, self._group, 1)
        self._keys = text.kv[:, None, : heads.keys].unbind()  # each [1, key-value heads, t, head size]
        self._values = text.kv[:, None, heads.keys :].unbind()
        self._into = text.kv[:, :, text.places].unbind()

    def __call__(self, layer: int, qkv: Tensor) -> Tensor:
        """Attention of this text alone; see `Attention`."""
        heads, n = self._heads, qkv.shape[1]
        queries, new = qkv[: heads.queries], qkv[heads.queries :]
        self._into[layer].copy_(new)
        if self._group > 1 and not self._causal:
            # The queries of a group share their keys, so they become further rows of one attention, and no
            # key is copied: [key-value heads, group x n, head size].
            queries = queries.reshape(heads.keys, -1, heads.size)
        mixed = F.scaled_dot_product_attention(
            queries[None],
            self._keys[layer],
            self._values[layer],
            attn_mask=self._mask,
            is_causal=self._causal,
            scale=self._heads.scale,
            enable_gqa=self._causal and self._group > 1,
        )
        return mixed.reshape(heads.queries, n, heads.size).transpose(0, 1)
