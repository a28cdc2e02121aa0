"""The innermost loops of matrix products, as vector code for LLVM: a few rows times sixteen outputs.

A matrix [outputs, inputs] is stored in blocks of `LANES` outputs, each block input after input:

    weights    block 0: [input 0: outputs 0..15] [input 1: outputs 0..15] ...    block 1: ...

A row is the input of one token. In the type `PAIRS`, the weights of inputs 0 and 1 lie side by side for each
output, then those of 2 and 3, and so on. A step of the loop takes one pair, input 1 before input 0.

The registers hold a tile: the sums of up to `MOST_ROWS` rows by one or a few blocks. The code of a tile reads
each weight once for all its rows and prefetches later weights. An output adds its inputs in a fixed order,
each by one fused multiply-add, so its bits do not depend on the number of rows, tiles or threads. LLVM splits
a vector of sixteen into registers of the processor (two with AVX2, one with AVX-512, four with NEON).
"""

from __future__ import annotations

from itertools import product

from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from torch import Tensor

from specdec.models.kernels.layout import BYTES, LANES, PAIRS, PART
from specdec.models.kernels.processor import has
from specdec.models.kernels.vectors import (
    FLOAT,
    I64,
    INT,
    LINE,
    NOTHING,
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

WIDE = has("avx512f")
DOTS = has("avx512bf16")
"""Whether the processor has an instruction that adds both products of a pair. It adds the second product and
rounds, then adds the first and rounds, as two fused multiply-adds do. So sums have the same bits with and
without this instruction, except that it treats numbers below 2 ** -126 as 0."""
BLOCKS = (4, 4, 4, 4, 4, 4, 2, 2, 2, 2, 2, 2) if WIDE else (4, 2, 2, 1, 1, 1)
"""The number of blocks in a tile of 1, 2, 3, ... rows. Each addition to a sum waits for the last one, so a
tile has several sums. They take up to 24 of 32 registers with AVX-512 and NEON, 12 of 16 with AVX2."""
MOST_ROWS = len(BLOCKS)
UNROLLED = 4
"""The number of steps in one iteration of the compiled loop."""
AHEAD = 2048
"""Weights are prefetched this many bytes before they are used."""

_SUMS = ir.VectorType(FLOAT, LANES)


class _Bfloat16(ir.Type):
    """LLVM's type bfloat, which llvmlite lacks."""

    def _to_string(self):
        return "bfloat"

    def __eq__(self, other):
        return isinstance(other, _Bfloat16)

    def __hash__(self):
        return hash(_Bfloat16)


_PAIRED = ir.VectorType(_Bfloat16(), 2 * LANES)
_STORED = {
    "float32": FLOAT,
    "float16": ir.HalfType(),
    "bfloat16": ir.IntType(16),
    "int8": ir.IntType(8),
    PAIRS: ir.IntType(32),
}
POINTERS = {
    "float32": types.CPointer(types.float32),
    "float16": types.CPointer(types.int16),  # Numba has neither float16 nor bfloat16
    "bfloat16": types.CPointer(types.uint16),
    "int8": types.CPointer(types.int8),
    PAIRS: types.CPointer(types.uint32),
}
"""Types of the weights' addresses. `multiply` is compiled once for each type of weights in use."""
_ARGUMENTS = ("weights", "x", "x_stride", "out", "out_stride", "steps")
"""Arguments of a tile's function, all int64: addresses, bytes from row to row, and the number of steps."""


@intrinsic
def tile(typingctx, weights, start, rows, blocks, x, x_stride, out, out_stride, steps):  # noqa: ARG001
    """out [rows, 16 x blocks] = x [rows, inputs] times some blocks of weights. All strides are in bytes.

    weights: a pointer of one of `POINTERS`. start: bytes before the first block. rows: 1 to `MOST_ROWS`.
    blocks: one of `_block_counts(rows)`.
    """

    def codegen(_context, builder, signature, values):
        kind = next(kind for kind, pointer in POINTERS.items() if pointer == signature.args[0])
        first, start, rows, blocks, *rest = values
        functions = {
            8 * count + each: _function(builder.module, kind, count, each)
            for count in range(1, MOST_ROWS + 1)
            for each in _block_counts(count)
        }
        address = builder.add(builder.ptrtoint(first, I64), start)
        call_one(builder, builder.add(builder.mul(rows, I64(8)), blocks), functions, [address, *rest])
        return NOTHING

    return types.void(weights, *(types.int64,) * 8), codegen


def _block_counts(rows: int) -> set[int]:
    """The numbers of blocks that a tile of `rows` rows can have: those of `BLOCKS` for `rows` and `rows` + 1,
    because tiles of one product may differ by one row, and 1 for the last blocks of a part."""
    return {1, *BLOCKS[rows - 1 : rows + 1]}


def _function(module: ir.Module, kind: str, rows: int, blocks: int) -> ir.Function:
    """LLVM code for one tile of `rows` rows by `blocks` blocks: the loop over all steps."""

    def write(builder, arguments):
        block_bytes = builder.mul(arguments["steps"], I64(LANES * BYTES[kind]))
        starts = [builder.add(arguments["weights"], builder.mul(block_bytes, I64(i))) for i in range(blocks)]
        lines = [builder.add(arguments["x"], builder.mul(arguments["x_stride"], I64(i))) for i in range(rows)]
        unrolled_end = builder.and_(arguments["steps"], I64(-UNROLLED))
        sums = [constant(_SUMS, 0.0)] * (rows * blocks)
        sums = _summed(builder, (I64(0), unrolled_end, UNROLLED), sums, kind, starts, lines)
        sums = _summed(builder, (unrolled_end, arguments["steps"], 1), sums, kind, starts, lines)
        for row, block in product(range(rows), range(blocks)):
            place = builder.add(arguments["out"], builder.mul(arguments["out_stride"], I64(row)))
            store(builder, sums[row * blocks + block], builder.add(place, I64(4 * LANES * block)))

    return function(module, f"specdec_tile_{kind}_{rows}_{blocks}", _ARGUMENTS, write)


def _summed(builder, numbers, sums, kind, starts, lines):
    """The sums after a range of steps. numbers: first step, end, and steps per iteration of the loop."""
    bytes_, unrolled = LANES * BYTES[kind], numbers[2]

    def steps(first, sums):
        for offset in range(unrolled):
            step = builder.add(first, I64(offset))
            if unrolled > 1 and offset * bytes_ % LINE == 0:
                ahead = builder.add(builder.mul(step, I64(bytes_)), I64(AHEAD))
                for start in starts:
                    prefetch(builder, builder.add(start, ahead))
            sums = _step(builder, step, sums, kind, starts, lines)
        return sums

    return loop(builder, numbers, sums, steps)


def _step(builder, step, sums, kind, starts, lines):
    """The sums after one step, which adds the products of the step's weights and its inputs in each row."""
    vector_type = ir.VectorType(_STORED[kind], LANES)
    offset = builder.mul(step, I64(LANES * BYTES[kind]))
    weights = []
    for start in starts:
        vector = load(builder, builder.add(start, offset), vector_type, BYTES[kind])
        weights.append(_factors(builder, kind, vector))
    result = list(sums)
    numbers = _numbers(kind)
    for i in reversed(range(len(numbers))):
        for row, line in enumerate(lines):
            place = builder.add(builder.mul(step, I64(4 * len(numbers))), I64(4 * i))
            number = splat(builder, load(builder, builder.add(line, place), numbers[i]), LANES)
            for block, weight in enumerate(weights):
                total = row * len(weights) + block
                result[total] = _added(builder, result[total], weight[i], number)
    return result


def _numbers(kind):
    """LLVM types of the numbers that one step takes from a row."""
    if kind != PAIRS:
        return [FLOAT]
    return [INT] if DOTS else [FLOAT, FLOAT]


def _added(builder, total, weights, numbers):
    """`total` plus weights times numbers; if both are vectors of pairs, plus both products of each pair."""
    if DOTS and weights.type == _PAIRED:
        pairs = builder.bitcast(numbers, _PAIRED)
        return call(builder, "llvm.x86.avx512bf16.dpbf16ps.512", _SUMS, total, weights, pairs)
    return fma(builder, weights, numbers, total)


def _factors(builder, kind, weights):
    """A step's weights as float32 vectors, one for each input; with `DOTS`, one vector of pairs."""
    wide = ir.VectorType(INT, LANES)
    if kind == "float32":
        return [weights]
    if kind == "float16":
        return [builder.fpext(weights, _SUMS)]
    if kind == "int8":
        return [builder.sitofp(builder.sext(weights, wide), _SUMS)]
    if kind == "bfloat16":
        return [builder.bitcast(builder.shl(builder.zext(weights, wide), constant(wide, 16)), _SUMS)]
    if DOTS:
        return [builder.bitcast(weights, _PAIRED)]
    second = builder.and_(weights, constant(wide, -1 << 16))
    return [builder.bitcast(each, _SUMS) for each in (builder.shl(weights, constant(wide, 16)), second)]


def rounded_inputs(x: Tensor, kind: str) -> Tensor:
    """x [rows, inputs], converted to the type that `multiply` reads for this type of weights."""
    if kind != PAIRS:
        return x
    return x.bfloat16() if DOTS else x.bfloat16().float()


def multiply(weights, block_bytes, steps, x, x_stride, rows, out, blocks):
    """Multiplies every row of x with up to `PART` outputs of a matrix; writes the sums to out [rows, PART].

    weights: a pointer of one of `POINTERS`. block_bytes: bytes of a block. x_stride: bytes of a row of x.
    """
    pieces = (rows + MOST_ROWS - 1) // MOST_ROWS
    block, first = 0, 0
    wide = BLOCKS[(rows + pieces - 1) // pieces - 1]
    while block < blocks:
        side = wide if block + wide <= blocks else 1
        first = 0
        for piece in range(pieces):
            count = -((first - rows) // (pieces - piece))
            tile(
                weights,
                block * block_bytes,
                count,
                side,
                x + first * x_stride,
                x_stride,
                out + (first * PART + block * LANES) * 4,
                PART * 4,
                steps,
            )
            first += count
        block += side
