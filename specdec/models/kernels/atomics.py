"""Additions to Numba: access to numbers and records by address, and atomic operations on shared int64s."""

from __future__ import annotations

import sys
from functools import partial

import numpy as np
from llvmlite import ir
from numba import carray, from_dtype, njit, types
from numba.extending import intrinsic

from specdec.models.kernels import layout

inner = partial(njit, no_cpython_wrapper=True, no_cfunc_wrapper=True)
"""A decorator that compiles a function which only other compiled code calls."""
_PAUSES = 1 << 10
"""After this many reads, a thread that waits for a shared int64 lets other threads run between reads."""


def _at_address(kind):
    """Returns a compiled function that turns an int64 address into a pointer or record of this Numba type."""

    @intrinsic
    def read(typingctx, address):  # noqa: ARG001
        def codegen(context, builder, _signature, values):
            return builder.inttoptr(values[0], context.get_value_type(kind))

        return kind(types.int64), codegen

    return read


plan_record, layer_record, matrix_record, call_record, row_record = (
    _at_address(from_dtype(dtype))
    for dtype in (layout.PLAN, layout.LAYER, layout.MATRIX, layout.CALL, layout.ROW)
)
"""Functions that turn an address, int64, into a record of `layout`."""


@intrinsic
def scaled_by_two(typingctx, number, power):  # noqa: ARG001
    """number * 2 ** power, for a power from -126 to 127."""

    def codegen(_context, builder, _signature, values):
        int32 = ir.IntType(32)
        bits = builder.shl(builder.add(values[1], int32(127)), int32(23))
        return builder.fmul(values[0], builder.bitcast(bits, ir.FloatType()))

    return types.float32(types.float32, types.int32), codegen


@intrinsic
def add_to_word(typingctx, address, value):  # noqa: ARG001
    """Atomically add to an int64 that threads share; return the value before the addition."""

    def codegen(_context, builder, _signature, values):
        pointer = builder.inttoptr(values[0], ir.IntType(64).as_pointer())
        return builder.atomic_rmw("add", pointer, values[1], "seq_cst")

    return types.int64(types.int64, types.int64), codegen


@intrinsic
def load_word(typingctx, address):  # noqa: ARG001
    """Atomically read an int64 that threads share."""

    def codegen(_context, builder, _signature, values):
        pointer = builder.inttoptr(values[0], ir.IntType(64).as_pointer())
        return builder.load_atomic(pointer, "seq_cst", 8)

    return types.int64(types.int64), codegen


@intrinsic
def store_word(typingctx, address, value):  # noqa: ARG001
    """Atomically write an int64 that threads share."""

    def codegen(_context, builder, _signature, values):
        pointer = builder.inttoptr(values[0], ir.IntType(64).as_pointer())
        builder.store_atomic(values[1], pointer, "seq_cst", 8)
        return ir.Constant(ir.IntType(8).as_pointer(), None)

    return types.void(types.int64, types.int64), codegen


_leave = types.ExternalFunction("SwitchToThread" if sys.platform == "win32" else "sched_yield", types.int32())


def _call(_context, builder, _signature, values):
    """Call the function at address `values[0]` with the other values, all int64. The function is compiled
    separately; otherwise LLVM would optimise a copy of it in each caller."""
    address, *numbers = values  # compiled code passes a pointer like an int64
    kind = ir.FunctionType(ir.VoidType(), [ir.IntType(64)] * len(numbers))
    builder.call(builder.inttoptr(address, kind.as_pointer()), numbers)
    return ir.Constant(ir.IntType(8).as_pointer(), None)


@intrinsic
def call_product(typingctx, address, weights, block_bytes, steps, x, x_stride, rows, out, blocks):  # noqa: ARG001
    """Call the compiled `tiles.multiply` or `groups.multiply_groups` at this address."""
    return types.void(*(types.int64,) * 9), _call


@intrinsic
def call_attention(typingctx, address, query, size, keys, values, prefix, line, count, scale, scores, out):  # noqa: ARG001
    """Call the compiled `attention.attend` at this address."""
    return types.void(*(types.int64,) * 11), _call


@inner()
def wait_for(address, value):
    """Wait until a shared int64 has this value. After `_PAUSES` reads, other threads may run in between."""
    looks = 0
    while load_word(address) != value:
        looks += 1
        if looks > _PAUSES:
            _leave()


def _array_at(kind, dtype):
    """Returns a compiled function of (address, count): the array of `count` numbers at this address.

    kind, dtype: the type of the numbers, in numba and in numpy.
    """
    pointer = _at_address(types.CPointer(kind))

    @inner()
    def read(address, count):
        return carray(pointer(address), (count,), dtype)

    return read


floats, ints, shorts, small_ints = (
    _array_at(kind, dtype)
    for kind, dtype in (
        (types.float32, np.float32),
        (types.int64, np.int64),
        (types.int16, np.int16),
        (types.int32, np.int32),
    )
)
"""Functions that take an address and a count, and return an array of float32, int64, int16 or int32."""
