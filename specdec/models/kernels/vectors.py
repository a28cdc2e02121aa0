"""Functions that emit LLVM code: operations on vectors, loops, and calls. The other modules share them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from llvmlite import ir

INT, I64, FLOAT = ir.IntType(32), ir.IntType(64), ir.FloatType()
NOTHING = ir.Constant(ir.IntType(8).as_pointer(), None)
"""The value that an intrinsic of Numba returns if it has no result."""


def constant(kind: ir.VectorType, number: float) -> ir.Constant:
    """A vector of this type with one number in all lanes."""
    return ir.Constant(kind, [number] * kind.count)


def splat(builder: ir.IRBuilder, number: ir.Value, lanes: int) -> ir.Value:
    """A vector with this number in all lanes."""
    kind = ir.VectorType(number.type, lanes)
    first = builder.insert_element(ir.Constant(kind, ir.Undefined), number, INT(0))
    return builder.shuffle_vector(
        first, ir.Constant(kind, ir.Undefined), constant(ir.VectorType(INT, lanes), 0)
    )


def call(builder: ir.IRBuilder, name: str, result: ir.Type, *arguments: ir.Value) -> ir.Value:
    """Calls one of LLVM's own functions, by name, and returns its result."""
    kind = ir.FunctionType(result, [each.type for each in arguments])
    return builder.call(builder.module.declare_intrinsic(name, (), kind), arguments)


def fma(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    """a * b + c with a single rounding, for float32 numbers or vectors of them."""
    lanes = f"v{a.type.count}" if isinstance(a.type, ir.VectorType) else ""
    return call(builder, f"llvm.fma.{lanes}f32", a.type, a, b, c)


def behind(builder: ir.IRBuilder, address: ir.Value, count: int) -> ir.Value:
    """`address` plus `count` bytes."""
    return builder.add(address, I64(count)) if count else address


def floats_behind(builder: ir.IRBuilder, address: ir.Value, count: ir.Value) -> ir.Value:
    """`address` plus the bytes of `count` float32 numbers."""
    return builder.add(address, builder.mul(count, I64(4)))


def load(builder: ir.IRBuilder, address: ir.Value, kind: ir.Type, align: int = 4) -> ir.Value:
    """The value of this LLVM type at an address."""
    return builder.load(builder.inttoptr(address, kind.as_pointer()), align=align)


def store(builder: ir.IRBuilder, value: ir.Value, address: ir.Value, align: int = 4) -> None:
    """Write a value to an address."""
    builder.store(value, builder.inttoptr(address, value.type.as_pointer()), align=align)


LINE = 64
"""Bytes in a cache line of the processor."""


def prefetch(builder: ir.IRBuilder, address: ir.Value) -> None:
    """Load the cache line at an address into the processor's cache; an invalid address does no harm."""
    pointer = builder.inttoptr(address, ir.IntType(8).as_pointer())
    kind = ir.FunctionType(ir.VoidType(), [pointer.type, INT, INT, INT])
    instruction = builder.module.declare_intrinsic("llvm.prefetch", (pointer.type,), kind)
    access, near, data = INT(0), INT(3), INT(1)
    builder.call(instruction, [pointer, access, near, data])


def loop(
    builder: ir.IRBuilder,
    numbers: tuple[ir.Value, ir.Value, int],
    values: Sequence[ir.Value],
    body: Callable[[ir.Value, list[ir.Value]], Sequence[ir.Value]],
) -> list[ir.Value]:
    """Emits a loop: `values = body(number, values)` for each number of a range. Returns the last values.

    numbers: the first number and the end, int64, and the step.
    """
    first, end, step = numbers
    entry = builder.block
    head, inside, outside = (builder.append_basic_block(name) for name in ("head", "body", "after"))
    builder.branch(head)
    builder.position_at_end(head)
    number, *carried = phis = [builder.phi(each.type) for each in (first, *values)]
    for phi, value in zip(phis, (first, *values), strict=True):
        phi.add_incoming(value, entry)
    builder.cbranch(builder.icmp_signed("<", number, end), inside, outside)
    builder.position_at_end(inside)
    results = body(number, carried)
    for phi, value in zip(phis, (builder.add(number, I64(step)), *results), strict=True):
        phi.add_incoming(value, builder.block)
    builder.branch(head)
    builder.position_at_end(outside)
    return carried


def function(
    module: ir.Module,
    name: str,
    arguments: Sequence[str],
    write: Callable[[ir.IRBuilder, dict[str, ir.Value]], None],
) -> ir.Function:
    """The LLVM function of this name. The first call makes it: `write` emits the body from the arguments."""
    if name in module.globals:
        return module.globals[name]
    result = ir.Function(module, ir.FunctionType(ir.VoidType(), [I64] * len(arguments)), name)
    result.linkage = "internal"
    result.attributes.add("noinline")
    builder = ir.IRBuilder(result.append_basic_block("entry"))
    write(builder, dict(zip(arguments, result.args, strict=True)))
    builder.ret_void()
    return result


def call_one(
    builder: ir.IRBuilder,
    number: ir.Value,
    functions: Mapping[int, ir.Function],
    arguments: Sequence[ir.Value],
) -> None:
    """Emits code that calls the function whose key in `functions` is this number, an int64."""
    join = builder.append_basic_block("called")
    switch = builder.switch(number, join)
    for each, chosen in functions.items():
        case = builder.append_basic_block(f"case_{each}")
        switch.add_case(I64(each), case)
        builder.position_at_end(case)
        builder.call(chosen, arguments)
        builder.branch(join)
    builder.position_at_end(join)
