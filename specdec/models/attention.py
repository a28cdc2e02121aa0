"""Attention of the forward in `lean`: each text attends to its own cache, with its own mask."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


class Heads(NamedTuple):
    """Numbers of query heads and key-value heads, the size of a head, and the factor of scores."""

    queries: int
    keys: int
    size: int
    scale: float


class TextRows(NamedTuple):
    """The n new tokens of one text in a forward.

    kv: [layers, 2 x key-value heads, t, head size], the visible part of the cache, the new tokens included.
    places: the new tokens' places in kv, a slice; in a CUDA graph, which needs a mask, int64 [n].
    mask: additive, [1, 1, n, t]; None for plain causal attention, if the new tokens are at the end of kv and
    are either one token or the whole text.
    """

    n: int
    kv: Tensor
    places: slice | Tensor
    mask: Tensor | None


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
        self._places = text.places
        into = text.kv if isinstance(text.places, Tensor) else text.kv[:, :, text.places]
        self._into = into.unbind()

    def __call__(self, layer: int, qkv: Tensor) -> Tensor:
        """Attention of this text alone; see `Attention`."""
        heads, n = self._heads, qkv.shape[1]
        queries, new = qkv[: heads.queries], qkv[heads.queries :]
        if isinstance(self._places, Tensor):
            self._into[layer].index_copy_(1, self._places, new)
            mixed = self._by_products(layer, self._grouped(queries))
        else:
            self._into[layer].copy_(new)
            shared = self._group > 1 and not self._causal
            mixed = self._fused(layer, self._grouped(queries) if shared else queries)
        return mixed.reshape(heads.queries, n, heads.size).transpose(0, 1)

    def _grouped(self, queries: Tensor) -> Tensor:
        """[key-value heads, group x n, head size]: the queries of a group share their keys, so they become
        further rows of one attention, and no key is copied."""
        return queries.reshape(self._heads.keys, -1, self._heads.size)

    def _fused(self, layer: int, queries: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(
            queries[None],
            self._keys[layer],
            self._values[layer],
            attn_mask=self._mask,
            is_causal=self._causal,
            scale=self._heads.scale,
            enable_gqa=self._causal and self._group > 1,
        )[0]

    def _by_products(self, layer: int, queries: Tensor) -> Tensor:
        """Attention in a CUDA graph. A GPU's fused kernels go through the keys of a head in turn, which takes
        longer for a few queries behind thousands of keys."""
        assert self._mask is not None, "attention without a mask"
        keys, values = self._keys[layer][0], self._values[layer][0]
        mask = self._mask[0].expand(len(keys), -1, -1)
        scores = torch.baddbmm(mask, queries, keys.transpose(1, 2), alpha=self._heads.scale)
        return torch.bmm(scores.softmax(-1), values)
