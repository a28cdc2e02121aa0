"""Measures products of a few rows (tokens) with a matrix, by our compiled code and by torch.

Speeds are shares of a memory copy's bandwidth. Times are processor times on one thread, because other work on
the machine disturbs them least. All products take turns, and the fastest of many repetitions counts.

    python -m research.bench.kernels --json assets/results/kernels.json
"""

import ctypes
import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from specdec.bench.measure import least_seconds
from specdec.commands import Parser, to_write, without_traceback, write_json
from specdec.devices import machine
from specdec.models.kernels import compiled, layout
from specdec.models.kernels.packing import pack, round_rows

SHAPES = ((2048, 8192), (768, 32000))  # the matrices: (number of inputs, number of outputs)
ROWS = (1, 2, 3, 5, 9, 17)
BESIDE = ("float32", "bfloat16", layout.PAIRS)  # types whose products torch computes fast on any processor
EMULATION = ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "ONEDNN_MAX_CPU_ISA", "ATEN_CPU_CAPABILITY")
"""Environment variables that make a processor behave like an older one. They are saved with the figures."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures the products and prints their rows; with `--json`, also writes them to a file."""
    parser = Parser(prog="python -m research.bench.kernels", description=__doc__)
    parser.add_argument("--json", type=to_write, help="file to which all figures are written")
    parser.add_argument("--times", type=int, default=12, help="number of repetitions of each product")
    options = parser.parse_args(arguments)
    crew = compiled.crew()
    if crew is None:
        parser.error("the compiled forward is missing: pip install numba, and unset SPECDEC_KERNELS")
    torch.set_num_threads(1)
    rows = [row for shape in SHAPES for row in _measured(crew.multiply, shape, options.times)]
    for row in rows:
        print("  ".join(f"{name} {value}" for name, value in row.items()))
    if options.json:
        emulated = {name: os.environ[name] for name in EMULATION if name in os.environ}
        facts = machine(torch.device("cpu")) | {"emulated": emulated}
        write_json(options.json, {"machine": facts, "rows": rows})


def _measured(multiply: Callable[[str], int], shape: tuple[int, int], times: int) -> list[dict[str, Any]]:
    inputs, outputs = shape
    weight = torch.randn(outputs, inputs)
    source = weight.bfloat16()
    work: dict[Any, Callable[[], object]] = {"copy": partial(source.clone().copy_, source)}
    for kind in layout.BYTES:
        matrix = weight.to(getattr(torch, layout.DTYPES["float32" if kind == "int8" else kind]), copy=True)
        if kind == "int8":
            round_rows(matrix)
        for count in ROWS:
            work["ours", kind, count] = _ours(multiply, matrix, kind, torch.randn(count, inputs))
            if kind in BESIDE:
                x = torch.randn(count, inputs, dtype=matrix.dtype)
                work["torch", kind, count] = partial(F.linear, x, matrix)
    seconds = least_seconds(work, times, time.thread_time)
    bandwidth = 2 * source.nbytes / seconds["copy"]
    sizes = {kind: size * inputs * outputs // layout.PER_STEP[kind] for kind, size in layout.BYTES.items()}
    return [
        {"inputs": inputs, "outputs": outputs, **_row(kind, count, seconds, bandwidth, sizes[kind])}
        for kind in layout.BYTES
        for count in ROWS
    ]


def _ours(multiply: Callable[[str], int], weight: Tensor, kind: str, x: Tensor) -> Callable[[], None]:
    from specdec.models.kernels.tiles import rounded_inputs  # late, because it needs Numba

    function = ctypes.CFUNCTYPE(None, *(ctypes.c_int64,) * 8)(multiply(kind))
    packed, (rows, inputs) = pack(weight, None, kind), x.shape
    steps, x = inputs // layout.PER_STEP[kind], rounded_inputs(x, kind)
    out, block = torch.empty(rows, layout.PART), packed.weights[0].nbytes
    most, blocks = layout.PART // layout.LANES, len(packed.weights)

    def run() -> None:
        for first in range(0, blocks, most):
            place = packed.weights.data_ptr() + first * block
            count = min(most, blocks - first)
            function(place, block, steps, x.data_ptr(), x[0].nbytes, rows, out.data_ptr(), count)

    return run


def _row(kind: str, count: int, seconds: dict[Any, float], bandwidth: float, size: int) -> dict[str, Any]:
    """The row of results for one product. size: bytes of the weights."""
    ours, torchs = seconds["ours", kind, count], seconds.get(("torch", kind, count))
    return {
        "weights": kind,
        "rows": count,
        "ms": round(1e3 * ours, 3),
        "times_one_row": round(ours / seconds["ours", kind, 1], 2),
        "gigabytes_per_second": round(size / ours / 1e9, 1),
        "share_of_copy": round(size / ours / bandwidth, 2),
        "torch_ms": torchs and round(1e3 * torchs, 3),
    }


if __name__ == "__main__":
    with without_traceback():
        main()
