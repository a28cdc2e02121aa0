"""Attention in a lean forward: of each text over its own cache, with its own mask."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


class Heads(NamedTuple):
    """Query heads, key-value heads, numbers of each, and what scores are multiplied with."""

    queries: int
    keys: int
    size: int
    scale: float


class Rows(NamedTuple):
    """The new tokens of one text in a forward.

    count: n, how many there are. kv: [layers, 2 x key-value heads, t, head size], what of a cache they may
    see, themselves included. places: where in it they go. mask: additive, [1, 1, n, t];
    None where all see everything before them, and of one another what a text does: then they go to the end,
    and several are all there is.
    """

    count: int  # type: ignore[assignment]  # shadows a method of tuples that nobody needs
    kv: Tensor
    places: slice
    mask: Tensor | None


class Attention:
    """Attention of one forward, layer by layer: the rows of several texts, one text's after the other's."""

    def __init__(self, heads: Heads, texts: Sequence[Rows]):
        self._heads = heads
        self._counts = [text.count for text in texts]
        self._texts = [_TextAttention(heads, text) for text in texts]

    def __call__(self, layer: int, qkv: Tensor) -> Tensor:
        """What the rows take in, [n, query heads, head size]; keys and values are written to the caches.

        qkv: queries, keys and values [query + 2 x key-value heads, n, head size], the first two rotated.
        """
        if len(self._texts) == 1:
            return self._texts[0](layer, qkv)
        parts = qkv.split(self._counts, 1)
        return torch.cat([text(layer, part) for text, part in zip(self._texts, parts, strict=True)])


class _TextAttention:
    """One text's part. All that is the same in every layer is made once, with views of all layers."""

    def __init__(self, heads: Heads, text: Rows):
        self._heads = heads
        self._group = heads.queries // heads.keys
        self._causal = text.mask is None and text.count > 1
        self._mask = text.mask
        if text.mask is not None and self._group > 1:
            self._mask = text.mask.repeat(1, 1, self._group, 1)
        self._keys = text.kv[:, None, : heads.keys].unbind()  # each [1, key-value heads, t, head size]
        self._values = text.kv[:, None, heads.keys :].unbind()
        self._into = text.kv[:, :, text.places].unbind()

    def __call__(self, layer: int, qkv: Tensor) -> Tensor:
        """[n, query heads, head size], given what `Attention` is, of this text alone."""
        heads, n = self._heads, qkv.shape[1]
        queries, new = qkv[: heads.queries], qkv[heads.queries :]
        self._into[layer].copy_(new)
        shared = self._group > 1 and not self._causal
        if shared:
            # the queries of one group share their keys: more rows of one attention, nothing repeated
            queries = queries.reshape(heads.keys, self._group * n, heads.size)
        mixed = F.scaled_dot_product_attention(
            queries[None],
            self._keys[layer],
            self._values[layer],
            attn_mask=self._mask,
            is_causal=self._causal,
            scale=heads.scale,
            enable_gqa=self._causal and self._group > 1,
        )[0]
        if shared:
            mixed = mixed.reshape(heads.queries, n, heads.size)
        return mixed.transpose(0, 1)
