"""Attention of one head of one row, as vector code for LLVM.

It takes the keys in the order of the text, and computes the same with each of them, wherever it lies in the
cache. So the result has the same bits in every draft tree.
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
from specdec.models.kernels.sums import fma, fused, halved, in_halves, total

_INT, _I64, _FLOAT = ir.IntType(32), ir.IntType(64), ir.FloatType()
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
    """The type of a query's address: `attend` is compiled once for each size of heads that is used."""
    return types.CPointer(types.UniTuple(types.float32, size))


def attend(query, size, keys, values, prefix, line, count, scale, scores, out):
    """out [size] = the values of a text, weighted by the softmax of its scores; addresses as int64.

    query: of `head_type(size)`. keys, values: float32 [places, size]. prefix: how many places the text begins
    with. line: int32 [count], its further places, counted from the end of the prefix. scale: address of the
    positive factor of all scores. scores: scratch, float32 [prefix + count].
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
    """Replace scores [count] by exp(scale * (score - largest)); returns the sum."""
    numbers = floats(scores, count)
    highest = numbers[0]
    for i in range(1, count):
        highest = max(highest, numbers[i])
    for i in range(count):
        numbers[i] = _fused_exp(scale * (numbers[i] - highest))
    return total(scores, count)


@inner(inline="always")
def exp(x):
    """e ** x of float32, within two units of the last place."""
    x = min(max(x, _LOWEST), _HIGHEST)
    power = np.floor(x * _LOG2E + _HALF)
    r = x - power * _LN2_HIGH - power * _LN2_LOW
    tail = _C2 + r * (_C3 + r * (_C4 + r * (_C5 + r * (_C6 + r * _C7))))
    return scaled_by_two(_ONE + r + r * r * tail, np.int32(power))


@inner(inline="always")
def _fused_exp(x):
    """e ** x of float32 by fused multiply-add, within two units of the last place and |x| / 2 ** 28."""
    x = min(max(x, _LOWEST), _HIGHEST)
    power = np.floor(fused(x, _LOG2E, _HALF))
    r = fused(-power, _LN2, x)
    tail = fused(fused(fused(fused(fused(r, _C7, _C6), r, _C5), r, _C4), r, _C3), r, _C2)
    return scaled_by_two(fused(r * r, tail, _ONE + r), np.int32(power))


@intrinsic
def score_keys(typingctx, query, keys, count, scores):  # noqa: ARG001
    """scores [count] = query times keys [count, size]."""

    def codegen(_context, builder, signature, values):
        size, (query, keys, count, scores) = signature.args[0].dtype.count, values
        asked = [
            builder.load(piece, align=4) for piece in _pieces(builder, size, builder.ptrtoint(query, _I64))
        ]
        with for_range(builder, count) as loop:
            numbers = _pieces(builder, size, _behind(builder, keys, loop.index, size))
            total = ir.Constant(ir.VectorType(_FLOAT, LANES), [0.0] * LANES)
            for part, number in zip(asked, numbers, strict=True):
                while total.type.count > part.type.count:
                    total = halved(builder, total)
                total = fma(builder, part, builder.load(number, align=4), total)
            score = in_halves(builder, total)
            builder.store(
                score, builder.inttoptr(_behind(builder, scores, loop.index, 1), _FLOAT.as_pointer())
            )
        return ir.Constant(ir.IntType(8).as_pointer(), None)

    return types.void(query, *(types.int64,) * 3), codegen


@intrinsic
def add_values(typingctx, query, heads, count, weights, out):  # noqa: ARG001
    """out [size] += weights [count] times heads [count, size], one after the other. query: tells the size."""

    def codegen(_context, builder, signature, values):
        size, (_, heads, count, weights, out) = signature.args[0].dtype.count, values
        places = _pieces(builder, size, out)
        sums = [alloca_once_value(builder, builder.load(place, align=4)) for place in places]
        with for_range(builder, count) as loop:
            place = builder.inttoptr(_behind(builder, weights, loop.index, 1), _FLOAT.as_pointer())
            weight = builder.load(place)
            for number, total in zip(
                _pieces(builder, size, _behind(builder, heads, loop.index, size)), sums, strict=True
            ):
                number = builder.load(number, align=4)
                spread = _splat(builder, weight, number.type)
                builder.store(fma(builder, number, spread, builder.load(total)), total)
        for place, total in zip(places, sums, strict=True):
            builder.store(builder.load(total), place, align=4)
        return ir.Constant(ir.IntType(8).as_pointer(), None)

    return types.void(query, *(types.int64,) * 4), codegen


def _pieces(builder, size, address):
    """Pointers to the vectors of a head: as many of `LANES` numbers as fit, and the rest in powers of 2."""
    lanes, pointers = LANES, []
    while size:
        while size < lanes:
            lanes //= 2
        pointers.append(builder.inttoptr(address, ir.VectorType(_FLOAT, lanes).as_pointer()))
        address, size = builder.add(address, _I64(4 * lanes)), size - lanes
    return pointers


def _behind(builder, address, index, size):
    """The address of the head with this index."""
    return builder.add(address, builder.mul(index, _I64(4 * size)))


def _splat(builder, number, kind):
    first = builder.insert_element(ir.Constant(kind, ir.Undefined), number, _INT(0))
    zeros = ir.Constant(ir.VectorType(_INT, kind.count), [0] * kind.count)
    return builder.shuffle_vector(first, ir.Constant(kind, ir.Undefined), zeros)
