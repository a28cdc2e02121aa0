"""Sums of float32 numbers in one fixed order, as vector code for LLVM.

LLVM would choose the order of a sum by the width of the processor's registers, so different processors would
round differently. This module fixes the order. There are four vectors of 16 lanes. While 64 numbers are
left, lane i of vector v adds number 16 v + i of the next 64. The four vectors are added in pairs. The result
becomes one number: its upper half is added to its lower half until one lane is left (`in_halves`). A vector
of eight lanes, which starts with this number and seven zeros, adds the remaining numbers eight at a time. It
becomes one number in the same way, to which the last few numbers are added one by one.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core.cgutils import alloca_once_value, for_range
from numba.extending import intrinsic

from specdec.models.kernels.layout import LANES
from specdec.models.kernels.vectors import FLOAT, I64, INT, constant, floats_behind, fma, load

_SUMS, _FEW = 4, 8
"""The number of sums of `LANES` lanes, and the number of lanes for the remaining numbers."""


@intrinsic
def fused(typingctx, a, b, c):  # noqa: ARG001
    """a * b + c for float32 numbers, with one rounding."""
    return types.float32(a, b, c), lambda _context, builder, _signature, values: fma(builder, *values)


@intrinsic
def total(typingctx, address, count):  # noqa: ARG001
    """The sum of `count` float32 numbers at an address."""

    def codegen(_context, builder, _signature, values):
        return _summed(builder, *values, lambda number, so_far: builder.fadd(number, so_far))

    return types.float32(types.int64, types.int64), codegen


@intrinsic
def total_of_squares(typingctx, address, count):  # noqa: ARG001
    """The sum of the squares of `count` float32 numbers at an address."""

    def codegen(_context, builder, _signature, values):
        return _summed(builder, *values, lambda number, so_far: fma(builder, number, number, so_far))

    return types.float32(types.int64, types.int64), codegen


def _summed(builder, address, count, add):
    """The sum in the order of this module. add: takes a number and the sum so far, as scalars or vectors."""
    at_once = _SUMS * LANES
    places = [alloca_once_value(builder, constant(ir.VectorType(FLOAT, LANES), 0.0)) for _ in range(_SUMS)]
    rounds = builder.udiv(count, I64(at_once))
    _repeat(builder, address, rounds, places, add)
    sums = [builder.load(place) for place in places]
    while len(sums) > 1:
        sums = [builder.fadd(*pair) for pair in zip(sums[::2], sums[1::2], strict=True)]
    zeros = constant(ir.VectorType(FLOAT, _FEW), 0.0)
    start = builder.insert_element(zeros, in_halves(builder, sums[0]), INT(0))
    place = alloca_once_value(builder, start)
    position = builder.mul(rounds, I64(at_once))
    quads = builder.udiv(builder.sub(count, position), I64(_FEW))
    _repeat(builder, floats_behind(builder, address, position), quads, [place], add)
    last = alloca_once_value(builder, in_halves(builder, builder.load(place)))
    position = builder.add(position, builder.mul(quads, I64(_FEW)))
    _repeat(builder, floats_behind(builder, address, position), builder.sub(count, position), [last], add)
    return builder.load(last)


def _repeat(builder, address, times, places, add):
    """Emits a loop of `times` steps. A step reads one number (or vector) for each place, in order from
    `address`, and adds it by `add` to the sum at this place."""
    kind = places[0].type.pointee
    size = getattr(kind, "count", 1)
    with for_range(builder, times) as loop:
        start = builder.mul(loop.index, I64(size * len(places)))
        for i, place in enumerate(places):
            number = load(builder, floats_behind(builder, address, builder.add(start, I64(i * size))), kind)
            builder.store(add(number, builder.load(place)), place)


def in_halves(builder, vector):
    """The sum of a vector's lanes: the upper half is added to the lower half until one number is left."""
    while vector.type.count > 1:
        vector = halved(builder, vector)
    return builder.extract_element(vector, INT(0))


def halved(builder, vector):
    """The lower half of a vector plus its upper half."""
    half = vector.type.count // 2
    kind = ir.VectorType(INT, half)
    low, high = (
        builder.shuffle_vector(vector, vector, ir.Constant(kind, list(range(first, first + half))))
        for first in (0, half)
    )
    return builder.fadd(low, high)
