"""Attention of one head of one token, as vector code for LLVM.

Keys are processed in the order of the text, all by the same operations, wherever they lie in the cache. So a
token's attention has the same bits in every draft tree.
"""

from __future__ import annotations

import math

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.cgutils import alloca_once_value, for_range
from numba.extending import intrinsic

from specdec.models.kernels.atomics import floats, inner, scaled_by_two, small_ints
from specdec.models.kernels.layout import LANES
from specdec.models.kernels.sums import fused, halved, in_halves, total
from specdec.models.kernels.vectors import FLOAT, I64, NOTHING, constant, fma, load, splat, store

_ONE, _HALF = np.float32(1), np.float32(0.5)
_LOG2E, _LN2_HIGH, _LN2_LOW = (
    np.float32(1.4426950408889634),
    np.float32(0.693359375),
    np.float32(-2.12194440e-4),
)
_LN2 = np.float32(0.6931471824645996)
_LOWEST, _HIGHEST = np.float32(-87), np.float32(88)
_TAYLOR = tuple(np.float32(1 / math.factorial(i)) for i in range(2, 8))
_C2, _C3, _C4, _C5, _C6, _C7 = _TAYLOR


def head_type(size: int) -> types.Type:
    """The Numba type of a query's address. As it states the head size, `attend` is compiled for each size."""
    return types.CPointer(types.UniTuple(types.float32, size))


def attend(query, size, keys, values, prefix, line, count, scale, scores, out):
    """out [size] = the sum of a text's values, weighted by the softmax of its scores. Addresses are int64.

    query: address, of type `head_type(size)`. keys, values: addresses of float32 [places, size] in the cache.
    The query attends to the first `prefix` places and to the `count` places in `line`. line: address of int32
    [count]; its places are counted from the end of the prefix. scale: address of the positive factor of all
    scores. scores: scratch memory, float32 [prefix + count].
    """
    further = small_ints(line, count)
    score_keys(query, keys, prefix, scores)
    for i in range(count):
        score_keys(query, keys + (prefix + further[i]) * size * 4, 1, scores + (prefix + i) * 4)
    result = floats(out, size)
    summed = _softmax(scores, prefix + count, floats(scale, 1)[0])
    for i in range(size):
        result[i] = 0
    add_values(query, values, prefix, scores, out)
    for i in range(count):
        add_values(query, values + (prefix + further[i]) * size * 4, 1, scores + (prefix + i) * 4, out)
    _divide(result, summed)


@inner(error_model="numpy")
def _divide(head, number):
    for i in range(len(head)):
        head[i] /= number


@inner()
def _softmax(scores, count, scale):
    """Replace scores [count] by exp(scale * (score - largest score)); return the sum of the results."""
    numbers = floats(scores, count)
    highest = numbers[0]
    for i in range(1, count):
        highest = max(highest, numbers[i])
    for i in range(count):
        numbers[i] = _fused_exp(scale * (numbers[i] - highest))
    return total(scores, count)


@inner(inline="always")
def exp(x):
    """e ** x in float32, for x from -87 to 88; the error is at most two units in the last place."""
    x = min(max(x, _LOWEST), _HIGHEST)
    power = np.floor(x * _LOG2E + _HALF)
    r = x - power * _LN2_HIGH - power * _LN2_LOW
    tail = _C2 + r * (_C3 + r * (_C4 + r * (_C5 + r * (_C6 + r * _C7))))
    return scaled_by_two(_ONE + r + r * r * tail, np.int32(power))


@inner(inline="always")
def _fused_exp(x):
    """`exp` with fused multiply-add, for scores. Its relative error is that of `exp` plus |x| / 2 ** 28."""
    x = min(max(x, _LOWEST), _HIGHEST)
    power = np.floor(fused(x, _LOG2E, _HALF))
    r = fused(-power, _LN2, x)
    tail = fused(fused(fused(fused(fused(r, _C7, _C6), r, _C5), r, _C4), r, _C3), r, _C2)
    return scaled_by_two(fused(r * r, tail, _ONE + r), np.int32(power))


@intrinsic
def score_keys(typingctx, query, keys, count, scores):  # noqa: ARG001
    """scores [count] = dot products of the query [size] with keys [count, size]."""

    def codegen(_context, builder, signature, values):
        size, (query, keys, count, scores) = signature.args[0].dtype.count, values
        parts = [load(builder, *piece) for piece in _pieces(builder, size, builder.ptrtoint(query, I64))]
        with for_range(builder, count) as loop:
            total = constant(ir.VectorType(FLOAT, LANES), 0.0)
            pieces = _pieces(builder, size, _head(builder, keys, loop.index, size))
            for part, piece in zip(parts, pieces, strict=True):
                while total.type.count > part.type.count:
                    total = halved(builder, total)
                total = fma(builder, part, load(builder, *piece), total)
            store(builder, in_halves(builder, total), _head(builder, scores, loop.index, 1))
        return NOTHING

    return types.void(query, *(types.int64,) * 3), codegen


@intrinsic
def add_values(typingctx, query, heads, count, weights, out):  # noqa: ARG001
    """out [size] += weights [count] times heads [count, size], row by row. `query`'s type gives the size."""

    def codegen(_context, builder, signature, values):
        size, (_, heads, count, weights, out) = signature.args[0].dtype.count, values
        places = _pieces(builder, size, out)
        sums = [alloca_once_value(builder, load(builder, *place)) for place in places]
        with for_range(builder, count) as loop:
            weight = load(builder, _head(builder, weights, loop.index, 1), FLOAT)
            pieces = _pieces(builder, size, _head(builder, heads, loop.index, size))
            for piece, total in zip(pieces, sums, strict=True):
                number = load(builder, *piece)
                spread = splat(builder, weight, number.type.count)
                builder.store(fma(builder, number, spread, builder.load(total)), total)
        for (address, _), total in zip(places, sums, strict=True):
            store(builder, builder.load(total), address)
        return NOTHING

    return types.void(query, *(types.int64,) * 4), codegen


def _pieces(builder, size, address):
    """Addresses and types of the vectors into which a head is cut: of `LANES` numbers, then smaller ones."""
    lanes, pieces = LANES, []
    while size:
        while size < lanes:
            lanes //= 2
        pieces.append((address, ir.VectorType(FLOAT, lanes)))
        address, size = builder.add(address, I64(4 * lanes)), size - lanes
    return pieces


def _head(builder, address, index, size):
    """The address of the vector with this index in an array of vectors of `size` float32 numbers."""
    return builder.add(address, builder.mul(index, I64(4 * size)))
