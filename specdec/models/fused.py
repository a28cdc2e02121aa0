"""The lean forward for CUDA graphs, written in Triton, with fewer kernels.

A GPU takes some three microseconds even for a kernel that computes almost nothing. A layer of the lean
forward has some twenty kernels, which take longer than reading the weights of a small model. Here the steps
between two products of matrices are one kernel each:

    add_norm    the residual sum and its RMSNorm
    rotate      rotary embedding of queries and keys, and writing keys and values to the cache
    softmax     the scores of attention, scaled and masked
    gate        silu(gate) x up

All of them compute in float32. Triton comes with torch's builds for CUDA.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor

if TYPE_CHECKING:
    from specdec.models.attention import TextRows
    from specdec.models.lean import LeanDecoder, LeanLayer

DTYPES = (torch.float32, torch.bfloat16)
"""Not float16, which can't hold the scores of some models before they are scaled."""
SILU = {"SiLU", "SiLUActivation"}
"""The names of its classes in torch and in transformers."""
WIDEST = 1 << 14
"""The most numbers in a row that one program keeps in registers: a hidden state, or the places of a text."""


class FusedForward:
    """The hidden states of a `LeanDecoder`, computed by fewer kernels.

    most_places: the most places in a cache that attention can read.
    ValueError if the decoder has parts that these kernels do not compute.
    """

    most_places = WIDEST

    def __init__(self, decoder: LeanDecoder):
        dtype, width = decoder.embedding.dtype, decoder.embedding.shape[1]
        if dtype not in DTYPES or width > WIDEST:
            raise ValueError(f"no kernel for hidden states of {width} numbers in {dtype}")
        if others := {type(layer.act).__name__ for layer in decoder.layers} - SILU:
            raise ValueError(f"no kernel for the activation {others.pop()}")
        self._decoder = decoder

    def hidden(self, token_ids: Tensor, rotation: Tensor, text: TextRows) -> Tensor:
        """As `LeanDecoder.hidden`, of one text in a CUDA graph."""
        decoder, mask = self._decoder, text.mask
        assert mask is not None, "a captured forward has a mask"
        x: Tensor = F.embedding(token_ids, decoder.embedding)
        added = None
        for number, (block, layer) in enumerate(zip(decoder.blocks, decoder.layers, strict=True)):
            normed = add_norm(x, added, block.input_layernorm)
            cache = text.kv[number]
            qkv = self._qkv(layer, normed)
            queries = rotate(qkv, rotation, text.places, cache, decoder.heads, decoder.kv_heads)
            scores = torch.bmm(queries, cache[: decoder.kv_heads].transpose(1, 2))
            softmax(scores, mask, decoder.scale)
            mixed = torch.bmm(scores, cache[decoder.kv_heads :])
            mixed = mixed.reshape(decoder.heads, text.n, decoder.size).transpose(0, 1)
            normed = add_norm(x, layer.out(mixed.reshape(text.n, -1)), block.post_attention_layernorm)
            added = layer.down(gate(layer.gate_up(normed)))
        return x if added is None else x + added

    def _qkv(self, layer: LeanLayer, x: Tensor) -> Tensor:
        """Queries, keys and values [n, (heads + 2 x kv_heads) x head size]."""
        decoder, qkv = self._decoder, layer.qkv(x)
        if layer.q_norm is None or layer.k_norm is None:
            return qkv
        parts = (decoder.heads, decoder.kv_heads, decoder.kv_heads)
        queries, keys, values = qkv.view(len(qkv), -1, decoder.size).split(parts, 1)
        return torch.cat([layer.q_norm(queries), layer.k_norm(keys), values], 1)


def add_norm(x: Tensor, added: Tensor | None, norm: Any) -> Tensor:
    """RMSNorm of x + added, [n, width]; the sum replaces x. added: None for nothing."""
    n, width = x.shape
    normed = torch.empty_like(x)
    block = triton.next_power_of_2(width)
    _add_norm[n,](
        *(x, x if added is None else added, norm.weight, normed, width, norm.variance_epsilon),
        adds=added is not None,
        block=block,
        num_warps=min(max(block // 512, 1), 16),
    )
    return normed


def rotate(qkv: Tensor, rotation: Tensor, places: Any, cache: Tensor, heads: int, kv_heads: int) -> Tensor:
    """The rotated queries, [key-value heads, group x n, head size]; keys and values go to their places.

    qkv: [n, (heads + 2 x kv_heads) x head size]. rotation: [n, 2, 1, head size], as of `LeanDecoder`. cache:
    [2 x kv_heads, places, head size].
    """
    n, size = len(qkv), cache.shape[2]
    queries = qkv.new_empty(kv_heads, heads // kv_heads * n, size)
    _rotate[n, heads + 2 * kv_heads](
        *(qkv, rotation, places, queries, cache, n, cache.stride(0)),
        heads=heads,
        kv_heads=kv_heads,
        half=size // 2,
        block=triton.next_power_of_2(size // 2),
        num_warps=1,
    )
    return queries


def softmax(scores: Tensor, mask: Tensor, scale: float) -> None:
    """Replaces scores [key-value heads, group x n, places] by weights under a mask [1, 1, n, places]."""
    kv_heads, rows, places = scores.shape
    block = triton.next_power_of_2(places)
    _softmax[kv_heads * rows,](
        *(scores, mask, mask.shape[2], places, scale), block=block, num_warps=min(max(block // 256, 1), 16)
    )


def gate(gate_up: Tensor) -> Tensor:
    """silu(gate) x up, [n, inner] of [n, 2 x inner]."""
    n, width = gate_up.shape
    gated = gate_up.new_empty(n, width // 2)
    _gate[n, triton.cdiv(width // 2, 1024)](gate_up, gated, width // 2, block=1024, num_warps=4)
    return gated


@triton.jit
def _add_norm(x, added, weight, normed, width, eps, adds: tl.constexpr, block: tl.constexpr):
    columns = tl.arange(0, block)
    inside, first = columns < width, tl.program_id(0) * width
    value = tl.load(x + first + columns, inside, 0.0).to(tl.float32)
    if adds:
        value += tl.load(added + first + columns, inside, 0.0).to(tl.float32)
        rounded = value.to(x.dtype.element_ty)
        tl.store(x + first + columns, rounded, inside)
        value = rounded.to(tl.float32)
    scale = 1 / tl.sqrt(tl.sum(value * value) / width + eps)
    value = value * scale * tl.load(weight + columns, inside, 0.0).to(tl.float32)
    tl.store(normed + first + columns, value.to(normed.dtype.element_ty), inside)


@triton.jit
def _rotate(
    qkv, rotation, places, queries, cache, n, stride,
    heads: tl.constexpr, kv_heads: tl.constexpr, half: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    row, head = tl.program_id(0), tl.program_id(1)
    columns = tl.arange(0, block)
    inside = columns < half
    source = qkv + (row * (heads + 2 * kv_heads) + head) * 2 * half + columns
    low, high = tl.load(source, inside, 0.0), tl.load(source + half, inside, 0.0)
    if head < heads + kv_heads:
        angles = rotation + row * 4 * half + columns  # cosines, then signed sines
        cos_low, cos_high = tl.load(angles, inside, 0.0), tl.load(angles + half, inside, 0.0)
        sin_low = tl.load(angles + 2 * half, inside, 0.0)
        sin_high = tl.load(angles + 3 * half, inside, 0.0)
        a, b = low.to(tl.float32), high.to(tl.float32)
        low = (a * cos_low.to(tl.float32) + b * sin_low.to(tl.float32)).to(low.dtype)
        high = (b * cos_high.to(tl.float32) + a * sin_high.to(tl.float32)).to(high.dtype)
    if head < heads:
        target = queries + (head * n + row) * 2 * half
    else:
        target = cache + (head - heads) * stride + tl.load(places + row) * 2 * half
    tl.store(target + columns, low, inside)
    tl.store(target + half + columns, high, inside)


@triton.jit
def _softmax(scores, mask, n, places, scale, block: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, block)
    inside = columns < places
    target = scores + row.to(tl.int64) * places + columns
    value = tl.load(target, inside, 0.0).to(tl.float32) * scale
    value += tl.load(mask + row % n * places + columns, inside, float("-inf")).to(tl.float32)
    value = tl.exp(value - tl.max(value))
    value = value / tl.sum(value)
    tl.store(target, value.to(scores.dtype.element_ty), inside)


@triton.jit
def _gate(gate_up, gated, inner, block: tl.constexpr):
    row, columns = tl.program_id(0), tl.program_id(1) * block + tl.arange(0, block)
    inside = columns < inner
    gate = tl.load(gate_up + row * 2 * inner + columns, inside, 0.0).to(tl.float32)
    up = tl.load(gate_up + row * 2 * inner + inner + columns, inside, 0.0).to(tl.float32)
    tl.store(gated + row * inner + columns, (gate * tl.sigmoid(gate) * up).to(gated.dtype.element_ty), inside)
