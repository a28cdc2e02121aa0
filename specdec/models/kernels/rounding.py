"""Rounds the inputs of matrices to bfloat16, or to int8 in groups of 32; `groups` describes the format."""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from specdec.models.kernels import layout as at
from specdec.models.kernels.atomics import floats, inner, shorts, small_ints
from specdec.models.kernels.tiles import DOTS
from specdec.models.kernels.vectors import FLOAT, INT, call, constant, load, splat, store

_STEP = np.float32(1 / 127)
_WHOLE = 3 << 22
"""A float32 below 2 ** 22 plus this has the nearest whole number, ties to even, in its last bits."""
_HALF = at.GROUP // 2
_BYTE = ir.IntType(8)
_group_bytes = inner()(at.rounded_group_bytes)


@inner()
def rounded(rounding, rows, inputs, source, spare):
    """Round the rows of `source` for a matrix. Returns the address of the result and the bytes of a row. The
    result is written to `spare`; it is `source` if nothing is rounded. rounding: see `layout.MATRIX`."""
    if rounding == at.UNROUNDED:
        return source, inputs * 4
    if rounding == at.IN_PAIRS:
        _round(source, spare, rows * inputs)
        return spare, inputs * (2 if DOTS else 4)
    stride = inputs // at.GROUP * _group_bytes(rounding & 255)
    for row in range(rows):
        round_groups(source + row * inputs * 4, spare + row * stride, inputs, rounding)
    return spare, stride


@inner()
def _round(source, out, count):
    """Round float32 numbers to the nearest bfloat16, ties to even.

    out: bfloat16 if the processor has an instruction that multiplies pairs of bfloat16 numbers (`DOTS`),
    otherwise float32.
    """
    bits, words, halves = small_ints(source, count), small_ints(out, count), shorts(out, count)
    for i in range(count):
        rounded = (bits[i] + 0x7FFF + ((bits[i] >> 16) & 1)) >> 16
        if DOTS:
            halves[i] = rounded
        else:
            words[i] = rounded << 16


@inner(error_model="numpy")
def round_groups(source, out, inputs, rounding):
    """Round a row of float32 numbers to int8 in groups. rounding: `layout.Quantised.rounding`."""
    offset, halves, size = rounding >> 8, at.GROUP // (rounding & 255), _group_bytes(rounding & 255)
    for group in range(inputs // at.GROUP):
        place = out + group * size
        step, words = floats(place + at.GROUP, 1), place + at.GROUP + 4
        products, sums = floats(words, halves), small_ints(words, halves)
        step[0] = _round_group(source + group * at.GROUP * 4, place) * _STEP
        first, second = _sum_of_half(place), _sum_of_half(place + _HALF)
        if halves == 2:
            sums[0], sums[1] = -offset * first, -offset * second
        elif offset == 0:
            products[0] = step[0] * np.float32(first + second)
        else:
            sums[0] = -offset * (first + second)


@intrinsic
def _round_group(typingctx, source, out):  # noqa: ARG001
    """Round 32 numbers at an address to int8; return the largest magnitude among the 32 numbers."""

    def codegen(_context, builder, _signature, values):
        source, out = values
        words, numbers = ir.VectorType(INT, at.GROUP), ir.VectorType(FLOAT, at.GROUP)
        bits = load(builder, source, words)
        unsigned = builder.and_(bits, constant(words, 0x7FFFFFFF))
        # without signs, bits compared as integers are ordered like the numbers
        highest = call(builder, f"llvm.vector.reduce.smax.v{at.GROUP}i32", INT, unsigned)
        largest = builder.bitcast(highest, FLOAT)
        usable = builder.fcmp_ordered(">", largest, ir.Constant(FLOAT, float(at.SMALLEST)))
        turned = builder.select(usable, builder.fdiv(FLOAT(127.0), largest), FLOAT(0.0))
        scaled = builder.fmul(builder.bitcast(bits, numbers), splat(builder, turned, at.GROUP))
        moved = builder.fadd(scaled, constant(numbers, float(_WHOLE)))
        integers = builder.trunc(builder.bitcast(moved, words), ir.VectorType(_BYTE, at.GROUP))
        store(builder, integers, out, align=1)
        return largest

    return types.float32(types.int64, types.int64), codegen


@intrinsic
def _sum_of_half(typingctx, address):  # noqa: ARG001
    """The sum of the 16 int8 numbers at an address."""

    def codegen(_context, builder, _signature, values):
        integers = load(builder, values[0], ir.VectorType(_BYTE, _HALF), 1)
        words = builder.sext(integers, ir.VectorType(INT, _HALF))
        return builder.sext(call(builder, f"llvm.vector.reduce.add.v{_HALF}i32", INT, words), ir.IntType(64))

    return types.int64(types.int64), codegen
