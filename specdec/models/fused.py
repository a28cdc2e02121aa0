"""The forward pass of `lean` for CUDA graphs, written in Triton, with fewer kernels.

A GPU takes some three microseconds even for a kernel that computes almost nothing. A layer of `lean` has some
twenty kernels, which take longer than reading the weights of a small model. Here the steps between two
products of matrices are one or two kernels:

    add_norm          the residual sum and its RMSNorm
    rotate            rotary embedding of queries and keys, and writing keys and values to the caches
    attend, combine   attention of each text to its own cache
    gate              silu(gate) x up

If one program went through all keys of a head, a few queries after thousands of keys would leave most of a
GPU idle. So `attend` cuts the keys of a text into pieces, and `combine` adds their results:

    keys      [ piece 0 | piece 1 | piece 2 ]      each piece: its largest score m, sum of weights l,
                  |         |         |            and the values mixed by its weights
               (m, l, mix) ...                     result, with the largest M of all m:
                                                   sum of e^(m - M) mix / sum of e^(m - M) l

Products of matrices are in the model's dtype with sums in float32, and everything else is in float32. Triton
comes with torch's builds for CUDA.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor

from specdec.models.attention import ALIGNED, NUMBERS

if TYPE_CHECKING:
    from specdec.models.attention import TextTable
    from specdec.models.lean import LeanDecoder, LeanLayer

COLUMNS = tl.constexpr(NUMBERS)  # a Triton kernel can read only globals of this type
SILU = {"SiLU", "SiLUActivation"}
"""The names of the SiLU activation's classes in torch and in transformers."""
WIDEST = 1 << 14
"""The largest supported size of a hidden state, because one program keeps all of it in registers."""
PROGRAMS = 256
"""Keys are cut into pieces until attention has this many programs: twice the processors of a large GPU."""
SUMMED = 16
"""The most pieces whose results `combine` adds at once, so that they fit into registers."""
KEYS = {torch.float32: 32, torch.bfloat16: 64, torch.float16: 64}
"""For each dtype, how many keys a step of attention reads; two steps must fit a small GPU's shared memory."""
QUERIES, MANY_QUERIES = 16, 64
"""The number of queries for which one program computes attention. A GPU multiplies no fewer than 16 at once.
With 64, fewer keys are read in total; 64 is used only if at least `ENOUGH` programs remain."""
ENOUGH = 64


class FusedForward:
    """The hidden states of a `LeanDecoder`, computed by fewer kernels.

    ValueError if the decoder has parts that these kernels do not compute.
    """

    def __init__(self, decoder: LeanDecoder):
        dtype, width = decoder.embedding.dtype, decoder.embedding.shape[1]
        if dtype not in KEYS or width > WIDEST:
            raise ValueError(f"no kernel for hidden states of {width} numbers in {dtype}")
        if unsupported := {type(layer.act).__name__ for layer in decoder.layers} - SILU:
            raise ValueError(f"no kernel for the activation {unsupported.pop()}")
        self.decoder = decoder

    def hidden(self, token_ids: Tensor, texts: TextTable) -> Tensor:
        """Hidden states [texts x rows, width] of these tokens; compare `LeanDecoder.hidden`.

        token_ids: [texts x rows]. The keys and values of each text's nodes are written to that text's cache.
        """
        decoder = self.decoder
        x: Tensor = F.embedding(token_ids, decoder.embedding)
        added = None
        for number, (block, layer) in enumerate(zip(decoder.blocks, decoder.layers, strict=True)):
            normed = add_norm(x, added, block.input_layernorm)
            queries = rotate(self._qkv(layer, normed), texts, number, decoder.heads, decoder.kv_heads)
            mixed = attend(queries, texts, number, decoder.kv_heads, decoder.scale)
            normed = add_norm(x, layer.out(mixed), block.post_attention_layernorm)
            added = layer.down(gate(layer.gate_up(normed)))
        return x if added is None else x + added

    def _qkv(self, layer: LeanLayer, x: Tensor) -> Tensor:
        """Queries, keys and values in one tensor, [n, (heads + 2 x kv_heads) x head size]."""
        decoder, qkv = self.decoder, layer.qkv(x)
        if layer.q_norm is None or layer.k_norm is None:
            return qkv
        parts = (decoder.heads, decoder.kv_heads, decoder.kv_heads)
        queries, keys, values = qkv.view(len(qkv), -1, decoder.size).split(parts, 1)
        return torch.cat([layer.q_norm(queries), layer.k_norm(keys), values], 1)


def add_norm(x: Tensor, added: Tensor | None, norm: Any) -> Tensor:
    """RMSNorm of x + added, [n, width]. The sum x + added is written to x. added: None adds nothing."""
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


def rotate(qkv: Tensor, texts: TextTable, layer: int, heads: int, kv_heads: int) -> Tensor:
    """The rotated queries, [texts, heads, rows, head size]. Rotated keys, and values, go to the caches.

    qkv: [texts x rows, (heads + 2 x kv_heads) x head size]. layer: the number of the layer.
    """
    (count, rows), size = texts.depths.shape, texts.size
    queries = qkv.new_empty(count, heads, rows, size)
    _rotate[count * rows, heads + 2 * kv_heads](
        *(qkv, texts.numbers, texts.depths, queries, layer, rows),
        heads=heads,
        kv_heads=kv_heads,
        half=size // 2,
        block=triton.next_power_of_2(size // 2),
        num_warps=1,
    )
    return queries


def attend(queries: Tensor, texts: TextTable, layer: int, kv_heads: int, scale: float) -> Tensor:
    """Attention of each text's nodes to its prefix and its tree, [texts x rows, heads x head size].

    queries: [texts, heads, rows, head size]. layer: the number of the layer.
    """
    count, heads, rows, size = queries.shape
    group = heads // kv_heads * rows  # queries of the heads that share their keys
    many = group > QUERIES and count * kv_heads * triton.cdiv(group, MANY_QUERIES) >= ENOUGH
    block = MANY_QUERIES if many else QUERIES
    blocks = triton.cdiv(group, block)
    # only powers of two, so that few variants of the kernels are compiled
    pieces = 1 << (max(PROGRAMS // (count * kv_heads * blocks), 1).bit_length() - 1)
    width = max(triton.next_power_of_2(size), 16)
    mixes = queries.new_empty(count * kv_heads, pieces, group, size, dtype=torch.float32)
    sums = queries.new_empty(count * kv_heads, pieces, group, 2, dtype=torch.float32)
    shape = {"size": size, "pieces": pieces, "width": width}
    _attend[count * kv_heads, blocks, pieces](
        *(queries, texts.numbers, texts.masks, mixes, sums, layer, rows, group, scale),
        **shape,
        kv_heads=kv_heads,
        block=block,
        keys=KEYS[queries.dtype],
        columns=texts.masks.shape[2],
        aligned=ALIGNED,
        num_warps=4,
        num_stages=2,
    )
    mixed = queries.new_empty(count * rows, heads * size)
    _combine[count * rows, heads](
        *(mixes, sums, mixed, rows, group),
        **shape,
        heads=heads,
        kv_heads=kv_heads,
        summed=min(pieces, SUMMED),
        num_warps=1,
    )
    return mixed


def gate(gate_up: Tensor) -> Tensor:
    """silu(gate) x up, [n, inner], computed from both side by side, [n, 2 x inner]."""
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


@triton.jit(do_not_specialize=["layer", "rows"])
def _rotate(
    qkv, numbers, depths, queries, layer, rows,
    heads: tl.constexpr, kv_heads: tl.constexpr, half: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    row, head = tl.program_id(0), tl.program_id(1)
    text, node = row // rows, row % rows
    columns = tl.arange(0, block)
    inside = columns < half
    source = qkv + (row * (heads + 2 * kv_heads) + head) * 2 * half + columns
    low, high = tl.load(source, inside, 0.0), tl.load(source + half, inside, 0.0)
    nodes = tl.load(numbers + text * COLUMNS + 4)
    if (head < heads + kv_heads) & (node < nodes):
        position = tl.load(depths + row) + tl.load(numbers + text * COLUMNS + 2)
        table = tl.load(numbers + text * COLUMNS + 5).to(qkv.dtype)
        angles = table + position * 4 * half + columns  # cosines, then sines (first half negated)
        cos_low, cos_high = tl.load(angles, inside, 0.0), tl.load(angles + half, inside, 0.0)
        sin_low = tl.load(angles + 2 * half, inside, 0.0)
        sin_high = tl.load(angles + 3 * half, inside, 0.0)
        a, b = low.to(tl.float32), high.to(tl.float32)
        low = (a * cos_low.to(tl.float32) + b * sin_low.to(tl.float32)).to(low.dtype)
        high = (b * cos_high.to(tl.float32) + a * sin_high.to(tl.float32)).to(high.dtype)
    if head < heads:
        target = queries + ((text * heads + head) * rows + node) * 2 * half + columns
        tl.store(target, low, inside)
        tl.store(target + half, high, inside)
    else:
        capacity, end = tl.load(numbers + text * COLUMNS + 1), tl.load(numbers + text * COLUMNS + 3)
        first = (layer * 2 * kv_heads + head - heads) * capacity
        place = (first + end - nodes + node) * 2 * half + columns
        target = tl.load(numbers + text * COLUMNS).to(qkv.dtype) + place
        tl.store(target, low, inside & (node < nodes))
        tl.store(target + half, high, inside & (node < nodes))


@triton.jit(do_not_specialize=["layer", "rows", "group"])
def _attend(
    queries, numbers, masks, mixes, sums, layer, rows, group, scale,
    size: tl.constexpr, pieces: tl.constexpr, width: tl.constexpr, kv_heads: tl.constexpr,
    block: tl.constexpr, keys: tl.constexpr, columns: tl.constexpr, aligned: tl.constexpr,
):  # fmt: skip
    text, head, piece = tl.program_id(0) // kv_heads, tl.program_id(0) % kv_heads, tl.program_id(2)
    row, column = tl.program_id(1) * block + tl.arange(0, block), tl.arange(0, width)
    node, real, inside = row % rows, row < group, column < size
    target = (tl.program_id(0) * pieces + piece).to(tl.int64) * group + row
    prefix, end = (
        tl.load(numbers + text * COLUMNS + 2).to(tl.int32),
        tl.load(numbers + text * COLUMNS + 3).to(tl.int32),
    )
    length = tl.cdiv(tl.cdiv(end, pieces), keys) * keys
    column_0 = prefix - prefix % aligned  # the place of the first column of the masks
    first = piece * length
    last = tl.minimum(first + length, end)
    if first >= end:
        tl.store(sums + target * 2 + 1, tl.zeros([block], tl.float32), real)
        return
    capacity, nodes = tl.load(numbers + text * COLUMNS + 1), tl.load(numbers + text * COLUMNS + 4)
    # tells Triton that rows are aligned; without this hint it would read numbers one by one
    key = tl.multiple_of(tl.load(numbers + text * COLUMNS).to(queries.dtype), 16)
    key += (layer * 2 * kv_heads + head) * capacity * size
    value = key + kv_heads * capacity * size
    source = (tl.program_id(0) * group + row)[:, None] * size + column[None]
    query = tl.load(queries + source, real[:, None] & inside[None], 0.0)
    largest = tl.full([block], float("-inf"), tl.float32)
    total = tl.zeros([block], tl.float32)
    mix = tl.zeros([block, width], tl.float32)
    for start in range(first, last, keys):
        place = start + tl.arange(0, keys)
        exists = place < last
        across = tl.load(key + place[None] * size + column[:, None], exists[None] & inside[:, None], 0.0)
        score = tl.dot(query, across, input_precision="ieee") * scale
        sees = exists[None] & (node < nodes)[:, None]
        # `is_new` changes only at multiples of `aligned`, so that many numbers are read at once
        pending = tl.multiple_of(start - column_0, aligned) + tl.arange(0, keys)
        is_new = (pending >= 0) & (pending < columns)
        mask = masks + (text * rows + node)[:, None] * columns + pending[None]
        sees &= (place < prefix)[None] | (tl.load(mask, is_new[None] & real[:, None], 0.0) == 0)
        score = tl.where(sees, score, float("-inf"))
        new = tl.maximum(largest, tl.max(score, 1))
        safe = tl.where(new == float("-inf"), 0.0, new)
        weight, factor = tl.exp(score - safe[:, None]), tl.exp(largest - safe)
        total = total * factor + tl.sum(weight, 1)
        entries = place[:, None] * size + column[None]
        values = tl.load(value + entries, exists[:, None] & inside[None], 0.0)
        mix = mix * factor[:, None] + tl.dot(weight.to(values.dtype), values, input_precision="ieee")
        largest = new
    tl.store(mixes + target[:, None] * size + column[None], mix, real[:, None] & inside[None])
    tl.store(sums + target * 2, largest, real)
    tl.store(sums + target * 2 + 1, total, real)


@triton.jit(do_not_specialize=["rows", "group"])
def _combine(
    mixes, sums, mixed, rows, group,
    size: tl.constexpr, pieces: tl.constexpr, width: tl.constexpr, heads: tl.constexpr,
    kv_heads: tl.constexpr, summed: tl.constexpr,
):  # fmt: skip
    row, head = tl.program_id(0), tl.program_id(1)
    sharing: tl.constexpr = heads // kv_heads
    piece, column = tl.arange(0, summed), tl.arange(0, width)
    inside = column < size
    owner = (row // rows * kv_heads + head // sharing).to(tl.int64)
    place = owner * pieces * group + head % sharing * rows + row % rows
    every = place + tl.arange(0, pieces) * group
    top = tl.max(tl.where(tl.load(sums + every * 2 + 1) > 0, tl.load(sums + every * 2), -1e30))
    result = tl.zeros([width], tl.float32)
    divisor = 0.0
    for first in range(0, pieces, summed):
        some = place + (first + piece) * group
        total = tl.load(sums + some * 2 + 1)
        nonempty = total > 0
        factor = tl.exp(tl.load(sums + some * 2, nonempty, float("-inf")) - top)
        mix = tl.load(mixes + some[:, None] * size + column[None], nonempty[:, None] & inside[None], 0.0)
        result += tl.sum(mix * factor[:, None], 0)
        divisor += tl.sum(total * factor)
    result = result / tl.where(divisor == 0, 1.0, divisor)
    tl.store(mixed + (row * heads + head) * size + column, result.to(mixed.dtype.element_ty), inside)


@triton.jit
def _gate(gate_up, gated, inner, block: tl.constexpr):
    row, columns = tl.program_id(0), tl.program_id(1) * block + tl.arange(0, block)
    inside = columns < inner
    gate = tl.load(gate_up + row * 2 * inner + columns, inside, 0.0).to(tl.float32)
    up = tl.load(gate_up + row * 2 * inner + inner + columns, inside, 0.0).to(tl.float32)
    tl.store(gated + row * inner + columns, (gate * tl.sigmoid(gate) * up).to(gated.dtype.element_ty), inside)
