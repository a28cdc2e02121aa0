"""Products with weights of four to eight bits: whole numbers within a group of inputs, float32 between.

The inputs of a matrix are rounded to int8 in groups of 32 (`rounding`), a row of n inputs is stored as

    int8 [n]    float32 [n / 32], the step of each group    a word for each scale of the weights: int32
    -offset * (sum of its inputs), or, for weights with minima, float32 step * (sum of its inputs)

An output adds its groups in their order. Of the inputs that share a scale it first adds the products of whole
numbers, which is exact, and so has the same bits in every order and with every instruction. Then it adds

    whole number * (scale * step)    and, where there are minima,    minimum * (step * sum)

each by one fused multiply-add. A tile unpacks each weight once for all its rows.

    VNNI    `vpdpbusd` adds the products of four inputs in one instruction
    AVX2    `vpmaddubsw` adds pairs to int16; as many of them are added there as can't overflow
    else    vectors of int32
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from specdec.models.kernels.layout import GROUP, LANES, PART, QUANTISED, Quantised
from specdec.models.kernels.processor import has
from specdec.models.kernels.sums import fma
from specdec.models.kernels.vectors import FLOAT, I64, INT, NOTHING, behind, call, load, splat

WIDE = has("avx512vnni")
VNNI = WIDE or has("avxvnni")
PAIRED = has("avx2")
WIDTH = LANES if WIDE or not PAIRED else LANES // 2
"""Outputs in a register."""
MOST_ROWS = 12 if WIDE else 6
"""Rows of a tile. Each takes two registers, and the weights a few more."""
AHEAD, LINE = 4096, 64
"""How many bytes ahead weights are prefetched, and bytes of a line of the processor's cache."""
POINTERS = {
    kind: types.CPointer(types.UniTuple(types.int8, number + 1)) for number, kind in enumerate(QUANTISED)
}
"""Types of the weights' addresses: `multiply_groups` is compiled once for each kind that is used."""

_BYTE, _SHORT, _HALF = ir.IntType(8), ir.IntType(16), ir.HalfType()
_WORDS, _FLOATS = ir.VectorType(INT, WIDTH), ir.VectorType(FLOAT, WIDTH)
_ARGUMENTS = ("weights", "x", "x_stride", "out", "out_stride", "units")
"""Addresses, strides of rows in bytes, and a number of units; all int64."""


@intrinsic
def tile(typingctx, weights, start, rows, x, x_stride, out, out_stride, units):  # noqa: ARG001
    """out [rows, 16] = x [rows, inputs] times a block of weights; strides in bytes, addresses as int64.

    weights: a pointer of one of `POINTERS`. start: bytes before the block. rows: 1 to `MOST_ROWS`.
    """

    def codegen(_context, builder, signature, values):
        name = next(kind for kind, pointer in POINTERS.items() if pointer == signature.args[0])
        first, start, rows, *rest = values
        rest = [builder.add(builder.ptrtoint(first, I64), start), *rest]
        done = builder.append_basic_block("tile_done")
        switch = builder.switch(rows, done)
        for count in range(1, MOST_ROWS + 1):
            case = builder.append_basic_block(f"tile_{count}")
            switch.add_case(I64(count), case)
            builder.position_at_end(case)
            builder.call(_function(builder.module, name, count), rest)
            builder.branch(done)
        builder.position_at_end(done)
        return NOTHING

    return types.void(weights, *(types.int64,) * 7), codegen


def _function(module: ir.Module, name: str, rows: int) -> ir.Function:
    """The loop over the units of one tile."""
    kind, name = QUANTISED[name], f"specdec_groups_{name}_{rows}"
    if name in module.globals:
        return module.globals[name]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [I64] * len(_ARGUMENTS)), name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    given = dict(zip(_ARGUMENTS, function.args, strict=True))
    lines = [builder.add(given["x"], builder.mul(given["x_stride"], I64(i))) for i in range(rows)]
    inputs = builder.mul(given["units"], I64(kind.span))
    sums = [ir.Constant(_FLOATS, [0.0] * WIDTH)] * (rows * LANES // WIDTH)

    def unit(builder, number, sums):
        return _unit(builder, kind, builder.add(given["weights"], number[1]), number[0], inputs, lines, sums)

    sums = _loop(builder, given["units"], kind.unit_bytes, sums, unit)
    for number, total in enumerate(sums):
        row, side = divmod(number, LANES // WIDTH)
        place = builder.add(given["out"], builder.mul(given["out_stride"], I64(row)))
        place = behind(builder, place, 4 * WIDTH * side)
        builder.store(total, builder.inttoptr(place, _FLOATS.as_pointer()), align=4)
    builder.ret_void()
    return function


def _loop(builder, count, stride, sums, body):
    """The sums after `body(builder, (number, number * stride), sums)` for each number below `count`."""
    before = builder.block
    head, inside, after = (builder.append_basic_block(name) for name in ("head", "body", "after"))
    builder.branch(head)
    builder.position_at_end(head)
    number, *carried = (builder.phi(each.type) for each in (I64(0), *sums))
    for phi, value in zip((number, *carried), (I64(0), *sums), strict=True):
        phi.add_incoming(value, before)
    builder.cbranch(builder.icmp_signed("<", number, count), inside, after)
    builder.position_at_end(inside)
    done = body(builder, (number, builder.mul(number, I64(stride))), carried)
    for phi, value in zip((number, *carried), (builder.add(number, I64(1)), *done), strict=True):
        phi.add_incoming(value, builder.block)
    builder.branch(head)
    builder.position_at_end(after)
    return carried


def _unit(builder, kind: Quantised, unit, number, inputs, lines, sums):
    """The sums after one unit: all its groups of 32 inputs."""
    groups = kind.span // GROUP
    first = builder.mul(number, I64(groups))
    for offset in range(0, kind.head_bytes, LINE):
        _prefetch(builder, builder.add(unit, I64(AHEAD + offset)))
    halves = ir.VectorType(_HALF, WIDTH)
    factors = [
        [
            builder.fpext(
                load(builder, behind(builder, unit, 2 * (LANES * part + first_lane)), halves), _FLOATS
            )
            for part in range(1 + kind.minima)
        ]
        for first_lane in range(0, LANES, WIDTH)
    ]

    def group(builder, at, sums):
        here = behind(builder, builder.add(unit, at[1]), kind.head_bytes)
        scales = behind(builder, unit, 2 * LANES * (1 + kind.minima))
        per_group = GROUP // kind.scaled
        scales = builder.add(scales, builder.mul(at[0], I64(per_group * LANES)))
        return _group(builder, kind, here, scales, factors, builder.add(first, at[0]), inputs, lines, sums)

    if groups == 1:
        return group(builder, (I64(0), I64(0)), sums)
    return _loop(builder, I64(groups), kind.group_bytes, sums, group)


def _group(builder, kind, weights, scales, factors, number, inputs, lines, sums):
    """The sums after 32 inputs. number: of the group in its row."""
    for offset in range(0, kind.group_bytes, LINE):
        _prefetch(builder, builder.add(weights, I64(AHEAD + offset)))
    per_group = GROUP // kind.scaled
    steps = [builder.add(line, builder.add(inputs, builder.mul(number, I64(4)))) for line in lines]
    words = builder.add(
        builder.add(inputs, builder.lshr(inputs, I64(3))), builder.mul(number, I64(4 * per_group))
    )
    words = [builder.add(line, words) for line in lines]
    numbers = [builder.add(line, builder.mul(number, I64(GROUP))) for line in lines]
    sides = LANES // WIDTH
    result = list(sums)
    for side in range(sides):
        for scale in range(per_group):
            factor, minimum = _scales(
                builder, kind, behind(builder, scales, LANES * scale + side * WIDTH), factors[side]
            )
            unpacked = [
                _unpacked(builder, kind, weights, side, vector)
                for vector in range(scale * kind.scaled // 4, (scale + 1) * kind.scaled // 4)
            ]
            totals = [ir.Constant(_WORDS, [0] * WIDTH)] * len(lines)
            if not kind.minima:
                totals = [
                    splat(builder, load(builder, behind(builder, each, 4 * scale), INT), WIDTH)
                    for each in words
                ]
            places = [behind(builder, each, scale * kind.scaled) for each in numbers]
            totals = _dots(builder, kind, unpacked, places, totals)
            for row, total in enumerate(totals):
                step = splat(builder, load(builder, steps[row], FLOAT), WIDTH)
                total = builder.sitofp(total, _FLOATS)
                at = row * sides + side
                result[at] = fma(builder, total, builder.fmul(factor, step), result[at])
                if kind.minima:
                    part = splat(builder, load(builder, words[row], FLOAT), WIDTH)
                    result[at] = fma(builder, minimum, part, result[at])
    return result


def _scales(builder, kind, place, factors):
    """The scale of each output, and its minimum or None. place: of the whole numbers, if factored."""
    if not kind.factored:
        return factors if kind.minima else (factors[0], None)
    found = []
    for part, factor in enumerate(factors):
        whole = load(
            builder, behind(builder, place, part * kind.scales * LANES), ir.VectorType(_BYTE, WIDTH), 1
        )
        found.append(builder.fmul(factor, builder.sitofp(builder.sext(whole, _WORDS), _FLOATS)))
    return found if kind.minima else (found[0], None)


def _unpacked(builder, kind, weights, side, vector):
    """q of four inputs of the outputs of a side: four bytes in each int32. vector: 0 to 7, of the group."""

    def line(number):
        return load(builder, behind(builder, weights, LINE * number + 4 * WIDTH * side), _WORDS)

    def shifted(value, right):
        if right == 0:
            return value
        by = ir.Constant(_WORDS, [abs(right)] * WIDTH)
        return builder.lshr(value, by) if right > 0 else builder.shl(value, by)

    def masked(value, bits):
        return builder.and_(value, ir.Constant(_WORDS, [bits * 0x01010101] * WIDTH))

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
    """The totals of each row plus the products of its inputs with weights, four inputs for each vector."""

    def number(place, vector):
        return splat(builder, load(builder, behind(builder, place, 4 * vector), INT), WIDTH)

    if not VNNI and PAIRED:
        return _paired_dots(builder, kind, weights, places, totals)
    for vector, weight in enumerate(weights):
        if VNNI:
            name = f"llvm.x86.avx512.vpdpbusd.{32 * WIDTH}"
            totals = [
                call(builder, name, _WORDS, total, weight, number(place, vector))
                for total, place in zip(totals, places, strict=True)
            ]
            continue
        for byte in range(4):
            by = ir.Constant(_WORDS, [8 * byte] * WIDTH)
            part = builder.and_(builder.lshr(weight, by), ir.Constant(_WORDS, [255] * WIDTH))
            totals = [
                builder.add(
                    total, builder.mul(part, _one(builder, behind(builder, place, 4 * vector + byte)))
                )
                for total, place in zip(totals, places, strict=True)
            ]
    return totals


def _one(builder, place):
    """One input in all lanes, as int32."""
    return splat(builder, builder.sext(load(builder, place, _BYTE, 1), INT), WIDTH)


def _paired_dots(builder, kind, weights, places, totals):
    """`_dots` with AVX2: pairs of products are added as int16. Eight bits are taken as two times four."""
    bytes_, shorts = ir.VectorType(_BYTE, 4 * WIDTH), ir.VectorType(_SHORT, 2 * WIDTH)
    ones = ir.Constant(shorts, [1] * 2 * WIDTH)

    def added(total, parts, shift):
        pairs = None
        for part, number in parts:
            pair = call(builder, "llvm.x86.avx2.pmadd.ub.sw", shorts, part, number)
            pairs = pair if pairs is None else builder.add(pairs, pair)
        four = call(builder, "llvm.x86.avx2.pmadd.wd", _WORDS, pairs, ones)
        return builder.add(total, builder.shl(four, ir.Constant(_WORDS, [shift] * WIDTH)) if shift else four)

    halves = [(weights, 0, kind.bits)]
    if kind.bits == 8:
        low, four = ir.Constant(_WORDS, [0x0F0F0F0F] * WIDTH), ir.Constant(_WORDS, [4] * WIDTH)
        lows = [builder.and_(weight, low) for weight in weights]
        highs = [builder.and_(builder.lshr(weight, four), low) for weight in weights]
        halves = [(lows, 0, 4), (highs, 4, 4)]
    for parts, shift, bits in halves:
        parts = [builder.bitcast(part, bytes_) for part in parts]
        most = 32767 // (2 * 127 * ((1 << bits) - 1))
        for first in range(0, len(parts), most):
            chosen = range(first, min(first + most, len(parts)))
            totals = [
                added(
                    total,
                    [
                        (
                            parts[i],
                            builder.bitcast(
                                splat(builder, load(builder, behind(builder, place, 4 * i), INT), WIDTH),
                                bytes_,
                            ),
                        )
                        for i in chosen
                    ],
                    shift,
                )
                for total, place in zip(totals, places, strict=True)
            ]
    return totals


def _prefetch(builder, address):
    """Ask for the line at an address; one beyond the end does no harm."""
    pointer = builder.inttoptr(address, _BYTE.as_pointer())
    asked = ir.FunctionType(ir.VoidType(), [pointer.type, INT, INT, INT])
    ask = builder.module.declare_intrinsic("llvm.prefetch", (pointer.type,), asked)
    builder.call(ask, [pointer, INT(0), INT(3), INT(1)])


def multiply_groups(weights, block_bytes, units, x, x_stride, rows, out, blocks):
    """Sums of up to `PART` outputs for all rows, in out [rows, PART].

    weights: of one of `POINTERS`. block_bytes: bytes of a block of them. x_stride: bytes of a row of x.
    """
    pieces = (rows + MOST_ROWS - 1) // MOST_ROWS
    first = 0
    for block in range(blocks):
        first = 0
        for piece in range(pieces):
            count = -((first - rows) // (pieces - piece))
            place = out + (first * PART + block * LANES) * 4
            tile(weights, block * block_bytes, count, x + first * x_stride, x_stride, place, PART * 4, units)
            first += count
