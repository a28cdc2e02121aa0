"""Products with weights of four to eight bits: integer sums within a group of inputs, then float32 sums.

The inputs of a matrix are rounded to int8 in groups of 32 (`rounding`). A token's inputs are stored group by
group. A group is stored as

    int8 [32]    the rounded inputs
    float32      the group's step: an input is about step * rounded input
    4 bytes      for each scale of the weights: int32 -offset * (sum of the scale's rounded inputs), or, if
                 the weights have minima, float32 step * (sum of the scale's rounded inputs)

Each output adds its groups in order. Products of inputs that share a scale are first added as integers. This
is exact, whatever the order and the instructions. Then the output adds

    integer sum * (scale * step)    and, where there are minima,    minimum * (step * sum)

each by one fused multiply-add. A group's weights are unpacked once, then multiplied with the inputs of one
row (token) after the other. Sums stay in memory, as weights fill the registers. Instructions by processor:

    VNNI    `vpdpbusd` adds the products of four inputs in one instruction
    AVX2    `vpmaddubsw` adds pairs of products as int16, which become int32 before they could overflow
    NEON    `sdot` adds the products of four inputs, if the processor has it
    else    vectors of int32
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from specdec.models.kernels.atomics import floats
from specdec.models.kernels.layout import GROUP, LANES, PART, QUANTISED, Quantised, rounded_group_bytes
from specdec.models.kernels.processor import dots_signed_bytes, has
from specdec.models.kernels.vectors import (
    FLOAT,
    I64,
    INT,
    LINE,
    NOTHING,
    behind,
    call,
    constant,
    fma,
    load,
    loop,
    prefetch,
    splat,
    store,
)

WIDE = has("avx512vnni")
VNNI = WIDE or has("avxvnni")
PAIRED = has("avx2")
SIGNED = dots_signed_bytes()
WIDTH = LANES // 4 if SIGNED else LANES // 2 if PAIRED and not WIDE else LANES
"""The number of outputs in a register."""
AHEAD = 4096
"""Weights are prefetched this many bytes before they are used."""
POINTERS = {
    kind: types.CPointer(types.UniTuple(types.int8, number + 1)) for number, kind in enumerate(QUANTISED)
}
"""Types of the weights' addresses. `multiply_groups` is compiled once for each type of weights in use."""

_BYTE = ir.IntType(8)
_WORDS, _FLOATS = ir.VectorType(INT, WIDTH), ir.VectorType(FLOAT, WIDTH)
_BYTES, _SHORTS = ir.VectorType(_BYTE, 4 * WIDTH), ir.VectorType(ir.IntType(16), 2 * WIDTH)
_HALVES = ir.VectorType(ir.HalfType(), WIDTH)
_SIDES = LANES // WIDTH
"""The number of sides of a block. A side consists of the `WIDTH` outputs whose sums fill one register."""


@intrinsic
def add_block(typingctx, weights, start, units, x, x_stride, rows, out):  # noqa: ARG001
    """Add the products of x [rows, inputs] and a block of weights to out [rows, `PART`].

    weights: a pointer of one of `POINTERS`. start: the block's offset in bytes. units: the number of units
    (`layout.Quantised`) in the block. x, out: addresses, int64. x_stride: bytes of a row of x.
    """

    def codegen(_context, builder, signature, values):
        kind = QUANTISED[next(name for name, pointer in POINTERS.items() if pointer == signature.args[0])]
        first, start, units, x, *rest = values
        block = builder.add(builder.ptrtoint(first, I64), start)

        def unit(number, _):
            inputs = builder.add(
                x, builder.mul(number, I64(kind.span // GROUP * rounded_group_bytes(kind.scaled)))
            )
            place = builder.add(block, builder.mul(number, I64(kind.unit_bytes)))
            _add_unit(builder, kind, place, inputs, *rest)
            return []

        loop(builder, (I64(0), units, 1), [], unit)
        return NOTHING

    return types.void(weights, *(types.int64,) * 6), codegen


def _add_unit(builder, kind: Quantised, unit, x, *rows):
    """Add the products of one unit of the weights. x: address of its inputs. rows: passed to `_add_group`."""
    for offset in range(0, kind.head_bytes, LINE):
        prefetch(builder, builder.add(unit, I64(AHEAD + offset)))

    def factor(lane, part):
        numbers = load(builder, behind(builder, unit, 2 * (LANES * part + lane)), _HALVES)
        return builder.fpext(numbers, _FLOATS)

    factors = [[factor(lane, part) for part in range(1 + kind.minima)] for lane in range(0, LANES, WIDTH)]
    all_scales = behind(builder, unit, 2 * LANES * (1 + kind.minima))

    def group(at, _):
        weights = behind(builder, builder.add(unit, builder.mul(at, I64(kind.group_bytes))), kind.head_bytes)
        scales = builder.add(all_scales, builder.mul(at, I64(GROUP // kind.scaled * LANES)))
        inputs = builder.add(x, builder.mul(at, I64(rounded_group_bytes(kind.scaled))))
        _add_group(builder, kind, (weights, scales, factors), inputs, *rows)
        return []

    loop(builder, (I64(0), I64(kind.span // GROUP), 1), [], group)


def _add_group(builder, kind, group, x, x_stride, rows, out):
    """Add the products of one group of 32 inputs. group: addresses of its weights and of its int8 scales, and
    the factors of each side. x: address of the group in the first row. rows: the number of rows."""
    weights, scales, factors = group
    for offset in range(0, kind.group_bytes, LINE):
        prefetch(builder, builder.add(weights, I64(AHEAD + offset)))
    vectors = kind.scaled // 4
    for side in range(_SIDES):
        parts = []
        for scale in range(GROUP // kind.scaled):
            place = behind(builder, scales, LANES * scale + side * WIDTH)
            numbers = range(scale * vectors, (scale + 1) * vectors)
            unpacked = [_unpacked(builder, kind, weights, side, number) for number in numbers]
            parts.append((unpacked, *_scales(builder, kind, place, factors[side])))

        def row(_, places, parts=parts):
            line, sums = places
            _add_row(builder, kind, parts, line, sums)
            return [builder.add(line, x_stride), builder.add(sums, I64(4 * PART))]

        loop(builder, (I64(0), rows, 1), [x, behind(builder, out, 4 * WIDTH * side)], row)


def _add_row(builder, kind, parts, line, sums):
    """Add the products of a row's group of inputs to the sums at an address.

    parts: for each scale of the group, the weights that it scales, its value for each output of a side, and
    these outputs' minima or None. line: the address of the row's group.
    """
    result = load(builder, sums, _FLOATS)
    step = _same(builder, behind(builder, line, GROUP), FLOAT)
    for number, (weights, scale, minimum) in enumerate(parts):
        word = behind(builder, line, GROUP + 4 + 4 * number)
        first = constant(_WORDS, 0) if kind.minima else _same(builder, word, INT)
        total = _dots(builder, kind, weights, behind(builder, line, number * kind.scaled), first)
        result = fma(builder, builder.sitofp(total, _FLOATS), builder.fmul(scale, step), result)
        if kind.minima:
            result = fma(builder, minimum, _same(builder, word, FLOAT), result)
    store(builder, result, sums)


def _same(builder, place, kind):
    """A vector with the number at this address in all lanes."""
    return splat(builder, load(builder, place, kind), WIDTH)


def _scales(builder, kind, place, factors):
    """For each output of a side, the scale, and the minimum or None. place: address of the int8 scales."""
    result = factors
    if kind.factored:
        result = []
        for part, factor in enumerate(factors):
            address = behind(builder, place, part * kind.scales * LANES)
            integers = builder.sext(load(builder, address, ir.VectorType(_BYTE, WIDTH), 1), _WORDS)
            result.append(builder.fmul(factor, builder.sitofp(integers, _FLOATS)))
    return result if kind.minima else (result[0], None)


def _unpacked(builder, kind, weights, side, vector):
    """For each output of a side, the q of inputs 4 `vector` to 4 `vector` + 3, as the bytes of an int32."""

    def line(number):
        return load(builder, behind(builder, weights, LINE * number + 4 * WIDTH * side), _WORDS)

    def shifted(value, right):
        if right == 0:
            return value
        return (builder.lshr if right > 0 else builder.shl)(value, constant(_WORDS, abs(right)))

    def masked(value, bits):
        return builder.and_(value, constant(_WORDS, bits * 0x01010101))

    if kind.bits == 8:
        return line(vector)
    low = masked(shifted(line(vector // 2), 4 * (vector % 2)), 15)
    more = kind.bits - 4
    if not more:
        return low
    per_line = 8 // more
    high = shifted(line(4 + vector // per_line), vector % per_line * more - 4)
    return builder.or_(low, masked(high, (1 << more) - 1 << 4))


def _dots(builder, kind, weights, place, total):
    """`total` plus the products of weights (four inputs in each vector) and the row's inputs at `place`."""
    if VNNI or not (PAIRED or SIGNED):
        return _sum_of(builder, _four_dots if VNNI else _single_dots, weights, place, total)
    halves, bits = [(weights, 0)], kind.bits
    if bits == 8:  # the instructions below take fewer bits
        bits, low, four = 4, constant(_WORDS, 0x0F0F0F0F), constant(_WORDS, 4)
        lows = [builder.and_(weight, low) for weight in weights]
        highs = [builder.and_(builder.lshr(weight, four), low) for weight in weights]
        halves = [(lows, 0), (highs, 4)]
    for parts, shift in halves:
        if SIGNED:
            part = _sum_of(builder, _signed_dots, parts, place, constant(_WORDS, 0))
        else:
            part = _paired_dots(builder, bits, parts, place)
        total = builder.add(total, builder.shl(part, constant(_WORDS, shift)))
    return total


def _sum_of(builder, add, weights, place, total):
    """`total` plus the products that `add` adds for each vector of weights."""
    totals = [total, constant(_WORDS, 0)]  # two sums, because each addition waits for the last one to its sum
    for vector, weight in enumerate(weights):
        totals[vector % 2] = add(builder, totals[vector % 2], weight, behind(builder, place, 4 * vector))
    return builder.add(*totals)


def _four_dots(builder, total, weight, place):
    name = f"llvm.x86.avx512.vpdpbusd.{32 * WIDTH}"
    return call(builder, name, _WORDS, total, weight, _same(builder, place, INT))


def _signed_dots(builder, total, weight, place):
    numbers = builder.bitcast(_same(builder, place, INT), _BYTES)
    weight = builder.bitcast(weight, _BYTES)
    return call(builder, "llvm.aarch64.neon.sdot.v4i32.v16i8", _WORDS, total, weight, numbers)


def _single_dots(builder, total, weight, place):
    for byte in range(4):
        number = builder.sext(load(builder, behind(builder, place, byte), _BYTE, 1), INT)
        part = builder.and_(builder.lshr(weight, constant(_WORDS, 8 * byte)), constant(_WORDS, 255))
        total = builder.add(total, builder.mul(part, splat(builder, number, WIDTH)))
    return total


def _paired_dots(builder, bits, weights, place):
    """The products with AVX2, which adds pairs of them as int16. bits: of the weights."""
    total, most = constant(_WORDS, 0), 32767 // (2 * 127 * ((1 << bits) - 1))
    for first in range(0, len(weights), most):
        pairs = constant(_SHORTS, 0)
        for vector in range(first, min(first + most, len(weights))):
            numbers = builder.bitcast(_same(builder, behind(builder, place, 4 * vector), INT), _BYTES)
            products = builder.bitcast(weights[vector], _BYTES), numbers
            pairs = builder.add(pairs, call(builder, "llvm.x86.avx2.pmadd.ub.sw", _SHORTS, *products))
        four = call(builder, "llvm.x86.avx2.pmadd.wd", _WORDS, pairs, constant(_SHORTS, 1))
        total = builder.add(total, four)
    return total


def multiply_groups(weights, block_bytes, units, x, x_stride, rows, out, blocks):
    """Write the sums of `blocks` blocks of outputs, for all rows, to the first columns of out [rows, PART].

    weights: a pointer of one of `POINTERS`. block_bytes, units: size of a block. x_stride: bytes of a row.
    """
    for row in range(rows):
        sums = floats(out + row * PART * 4, blocks * LANES)
        sums[:] = 0
    for block in range(blocks):
        add_block(weights, block * block_bytes, units, x, x_stride, rows, out + block * LANES * 4)
