"""Operations on vectors that the generators of compiled loops share."""

from __future__ import annotations

from llvmlite import ir

INT, I64, FLOAT = ir.IntType(32), ir.IntType(64), ir.FloatType()
NOTHING = ir.Constant(ir.IntType(8).as_pointer(), None)
"""What an intrinsic of Numba without a result returns."""


def splat(builder: ir.IRBuilder, number: ir.Value, lanes: int) -> ir.Value:
    """A vector with this number in all lanes."""
    kind = ir.VectorType(number.type, lanes)
    first = builder.insert_element(ir.Constant(kind, ir.Undefined), number, INT(0))
    zeros = ir.Constant(ir.VectorType(INT, lanes), [0] * lanes)
    return builder.shuffle_vector(first, ir.Constant(kind, ir.Undefined), zeros)


def call(builder: ir.IRBuilder, name: str, result: ir.Type, *arguments: ir.Value) -> ir.Value:
    """The result of one of LLVM's own functions."""
    kind = ir.FunctionType(result, [each.type for each in arguments])
    return builder.call(builder.module.declare_intrinsic(name, (), kind), arguments)


def behind(builder: ir.IRBuilder, address: ir.Value, count: int) -> ir.Value:
    """The address some bytes further."""
    return builder.add(address, I64(count)) if count else address


def load(builder: ir.IRBuilder, address: ir.Value, kind: ir.Type, align: int = 4) -> ir.Value:
    """The value of this type at an address."""
    return builder.load(builder.inttoptr(address, kind.as_pointer()), align=align)
