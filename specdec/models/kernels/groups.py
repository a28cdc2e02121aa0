"""Products with weights of four to eight bits: integer sums within a group of inputs, then float32 sums.

The inputs of a matrix are rounded to int8 in groups of 32 (`rounding`). A token's n inputs are stored as

    int8 [n]    float32 [n / 32], the step of each group    a word for each scale of the weights: int32
    -offset * (sum of its inputs), or, for weights with minima, float32 step * (sum of its inputs)

Each output adds its groups in order. Products of inputs that share a scale are first added as integers. This
is exact: the bits do not depend on the order or the instructions. Then the output adds

    integer sum * (scale * step)    and, where there are minima,    minimum * (step * sum)

each by one fused multiply-add. A tile unpacks each weight once for all its rows.

    VNNI    `vpdpbusd` adds the products of four inputs in one instruction
    AVX2    `vpmaddubsw` adds pairs as int16; only as many are added in int16 as can't overflow
    else    vectors of int32
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from specdec.models.kernels.layout import GROUP, LANES, PART, QUANTISED, Quantised
from specdec.models.kernels.processor import has
from specdec.models.kernels.vectors import (
    FLOAT,
    I64,
    INT,
    LINE,
    NOTHING,
    behind,
    call,
    call_one,
    constant,
    fma,
    function,
    load,
    loop,
    prefetch,
    splat,
    store,
)

WIDE = has("avx512vnni")
VNNI = WIDE or has("avxvnni")
PAIRED = has("avx2")
WIDTH = LANES if WIDE or not PAIRED else LANES // 2
"""The number of outputs in a register."""
MOST_ROWS = 12 if WIDE else 6
"""The most rows (tokens) of a tile. Each takes two registers, and the weights take a few more."""
AHEAD = 4096
"""How many bytes ahead weights are prefetched."""
POINTERS = {
    kind: types.CPointer(types.UniTuple(types.int8, number + 1)) for number, kind in enumerate(QUANTISED)
}
"""Types of the weights' addresses. `multiply_groups` is compiled once for each type of weights in use."""

_BYTE = ir.IntType(8)
_WORDS, _FLOATS = ir.VectorType(INT, WIDTH), ir.VectorType(FLOAT, WIDTH)
_BYTES, _SHORTS = ir.VectorType(_BYTE, 4 * WIDTH), ir.VectorType(ir.IntType(16), 2 * WIDTH)
_HALVES = ir.VectorType(ir.HalfType(), WIDTH)
_SIDES = LANES // WIDTH
"""The number of registers for the outputs of a block."""
_ARGUMENTS = ("weights", "x", "x_stride", "out", "out_stride", "units")
"""Addresses, strides between rows in bytes, and the number of units; all int64."""


@intrinsic
def tile(typingctx, weights, start, rows, x, x_stride, out, out_stride, units):  # noqa: ARG001
    """out [rows, 16] = x [rows, inputs] times a block of weights; strides in bytes, addresses as int64.

    weights: a pointer of one of `POINTERS`. start: bytes before the block. rows: 1 to `MOST_ROWS`.
    """

    def codegen(_context, builder, signature, values):
        name = next(kind for kind, pointer in POINTERS.items() if pointer == signature.args[0])
        first, start, rows, *rest = values
        functions = {count: _function(builder.module, name, count) for count in range(1, MOST_ROWS + 1)}
        call_one(builder, rows, functions, [builder.add(builder.ptrtoint(first, I64), start), *rest])
        return NOTHING

    return types.void(weights, *(types.int64,) * 7), codegen


def _function(module: ir.Module, name: str, rows: int) -> ir.Function:
    """LLVM code for one tile of `rows` rows: the loop over all units of a block of weights."""
    kind = QUANTISED[name]

    def write(builder, given):
        lines = [builder.add(given["x"], builder.mul(given["x_stride"], I64(i))) for i in range(rows)]
        inputs = builder.mul(given["units"], I64(kind.span))

        def unit(number, sums):
            place = builder.add(given["weights"], builder.mul(number, I64(kind.unit_bytes)))
            return _unit(builder, kind, place, number, inputs, lines, sums)

        sums = [constant(_FLOATS, 0.0)] * (rows * _SIDES)
        for number, total in enumerate(loop(builder, (I64(0), given["units"], 1), sums, unit)):
            row, side = divmod(number, _SIDES)
            place = builder.add(given["out"], builder.mul(given["out_stride"], I64(row)))
            store(builder, total, behind(builder, place, 4 * WIDTH * side))

    return function(module, f"specdec_groups_{name}_{rows}", _ARGUMENTS, write)


def _unit(builder, kind: Quantised, unit, number, inputs, lines, sums):
    """The sums after adding one unit of the weights, with all its groups of 32 inputs."""
    groups, per_group = kind.span // GROUP, GROUP // kind.scaled
    first = builder.mul(number, I64(groups))
    for offset in range(0, kind.head_bytes, LINE):
        prefetch(builder, builder.add(unit, I64(AHEAD + offset)))

    def factor(lane, part):
        numbers = load(builder, behind(builder, unit, 2 * (LANES * part + lane)), _HALVES)
        return builder.fpext(numbers, _FLOATS)

    factors = [[factor(lane, part) for part in range(1 + kind.minima)] for lane in range(0, LANES, WIDTH)]
    all_scales = behind(builder, unit, 2 * LANES * (1 + kind.minima))

    def group(at, sums):
        weights = behind(builder, builder.add(unit, builder.mul(at, I64(kind.group_bytes))), kind.head_bytes)
        scales = builder.add(all_scales, builder.mul(at, I64(per_group * LANES)))
        return _group(builder, kind, weights, scales, factors, builder.add(first, at), inputs, lines, sums)

    if groups == 1:
        return group(I64(0), sums)
    return loop(builder, (I64(0), I64(groups), 1), sums, group)


def _group(builder, kind, weights, scales, factors, number, inputs, lines, sums):
    """The sums after adding one group of 32 inputs. number: the group's index in its row."""
    for offset in range(0, kind.group_bytes, LINE):
        prefetch(builder, builder.add(weights, I64(AHEAD + offset)))
    per_group, vectors = GROUP // kind.scaled, kind.scaled // 4
    after_steps = builder.add(inputs, builder.lshr(inputs, I64(3)))
    offsets = (
        builder.mul(number, I64(GROUP)),
        builder.add(inputs, builder.mul(number, I64(4))),
        builder.add(after_steps, builder.mul(number, I64(4 * per_group))),
    )
    numbers, steps, words = ([builder.add(line, offset) for line in lines] for offset in offsets)
    result = list(sums)
    for side in range(_SIDES):
        for scale in range(per_group):
            place = behind(builder, scales, LANES * scale + side * WIDTH)
            factor, minimum = _scales(builder, kind, place, factors[side])
            first = scale * vectors
            unpacked = [_unpacked(builder, kind, weights, side, i) for i in range(first, first + vectors)]
            totals = [constant(_WORDS, 0)] * len(lines)
            if not kind.minima:
                totals = [_same(builder, behind(builder, each, 4 * scale), INT) for each in words]
            places = [behind(builder, each, scale * kind.scaled) for each in numbers]
            for row, total in enumerate(_dots(builder, kind, unpacked, places, totals)):
                at, step = row * _SIDES + side, _same(builder, steps[row], FLOAT)
                total = builder.sitofp(total, _FLOATS)
                result[at] = fma(builder, total, builder.fmul(factor, step), result[at])
                if kind.minima:
                    result[at] = fma(builder, minimum, _same(builder, words[row], FLOAT), result[at])
    return result


def _same(builder, place, kind):
    """A vector with the number at this address in all lanes."""
    return splat(builder, load(builder, place, kind), WIDTH)


def _scales(builder, kind, place, factors):
    """Each output's scale, and its minimum or None. place: the address of int8 scales, if factored."""
    found = factors
    if kind.factored:
        found = []
        for part, factor in enumerate(factors):
            there = behind(builder, place, part * kind.scales * LANES)
            whole = builder.sext(load(builder, there, ir.VectorType(_BYTE, WIDTH), 1), _WORDS)
            found.append(builder.fmul(factor, builder.sitofp(whole, _FLOATS)))
    return found if kind.minima else (found[0], None)


def _unpacked(builder, kind, weights, side, vector):
    """The q of four inputs for each output of a side, as bytes of an int32. vector: which four, 0 to 7."""

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


def _dots(builder, kind, weights, places, totals):
    """`totals` plus, for each row, the products of its inputs and the weights; a vector has four inputs."""
    if PAIRED and not VNNI:
        return _paired_dots(builder, kind, weights, places, totals)
    add = _four_dots if VNNI else _single_dots
    for vector, weight in enumerate(weights):
        totals = [
            add(builder, total, weight, behind(builder, place, 4 * vector))
            for total, place in zip(totals, places, strict=True)
        ]
    return totals


def _four_dots(builder, total, weight, place):
    name = f"llvm.x86.avx512.vpdpbusd.{32 * WIDTH}"
    return call(builder, name, _WORDS, total, weight, _same(builder, place, INT))


def _single_dots(builder, total, weight, place):
    for byte in range(4):
        number = builder.sext(load(builder, behind(builder, place, byte), _BYTE, 1), INT)
        part = builder.and_(builder.lshr(weight, constant(_WORDS, 8 * byte)), constant(_WORDS, 255))
        total = builder.add(total, builder.mul(part, splat(builder, number, WIDTH)))
    return total


def _paired_dots(builder, kind, weights, places, totals):
    """`_dots` with AVX2, which adds pairs of products as int16. Eight bits are split into two halves."""
    bits, halves = kind.bits, [(weights, 0)]
    if bits == 8:
        bits, low, four = 4, constant(_WORDS, 0x0F0F0F0F), constant(_WORDS, 4)
        lows = [builder.and_(weight, low) for weight in weights]
        highs = [builder.and_(builder.lshr(weight, four), low) for weight in weights]
        halves = [(lows, 0), (highs, 4)]
    most = 32767 // (2 * 127 * ((1 << bits) - 1))
    for parts, shift in halves:
        for first in range(0, len(parts), most):
            chosen = [*enumerate(parts)][first : first + most]
            totals = [
                _with_pairs(builder, total, chosen, place, shift)
                for total, place in zip(totals, places, strict=True)
            ]
    return totals


def _with_pairs(builder, total, parts, place, shift):
    """`total` plus the products of one row's inputs and these vectors of weights, times 2 ** shift."""
    pairs = constant(_SHORTS, 0)
    for vector, part in parts:
        numbers = builder.bitcast(_same(builder, behind(builder, place, 4 * vector), INT), _BYTES)
        products = builder.bitcast(part, _BYTES), numbers
        pairs = builder.add(pairs, call(builder, "llvm.x86.avx2.pmadd.ub.sw", _SHORTS, *products))
    four = call(builder, "llvm.x86.avx2.pmadd.wd", _WORDS, pairs, constant(_SHORTS, 1))
    return builder.add(total, builder.shl(four, constant(_WORDS, shift)))


def multiply_groups(weights, block_bytes, units, x, x_stride, rows, out, blocks):
    """Write the sums of up to `PART` outputs for all rows to out [rows, PART].

    weights: a pointer of one of `POINTERS`. block_bytes: bytes of a block. x_stride: bytes of a row of x.
    """
    pieces = (rows + MOST_ROWS - 1) // MOST_ROWS
    for block in range(blocks):
        first = 0
        for piece in range(pieces):
            count = -((first - rows) // (pieces - piece))
            place = out + (first * PART + block * LANES) * 4
            tile(weights, block * block_bytes, count, x + first * x_stride, x_stride, place, PART * 4, units)
            first += count
