"""Laws of products with weights of four to eight bits: the same bits, however the product is computed."""

from __future__ import annotations

import ctypes
import hashlib
import os
from functools import lru_cache
from pathlib import Path

import gguf
import numba
import numpy as np
import pytest

from specdec.models.gguf.fields import fields
from specdec.models.kernels import compiled
from specdec.models.kernels.layout import GROUP, LANES, PART, QUANTISED, SMALLEST
from specdec.models.kernels.quantised import blocks_of, fields_of
from specdec.models.kernels.rounding import round_groups
from tests.helpers.file_blocks import random_blocks
from tests.helpers.processes import printed

INPUTS, OUTPUTS, MOST = 512, 330, 26
PATHS = {
    "AVX2": ("haswell", "+avx2,+fma,+f16c"),
    "AVX-VNNI": ("alderlake", "+avx2,+fma,+f16c,+avxvnni"),
    "plain vectors": ("x86-64", "+avx,+fma,+f16c"),
    "NEON with sdot": ("apple-m1", ""),
    "plain vectors on ARM": ("generic", ""),
}


def numbers(rows: int, seed: int = 1) -> np.ndarray:
    """Inputs of very different sizes, with some groups of zeros."""
    x = np.random.default_rng(seed).standard_normal((rows, INPUTS)).astype(np.float32)
    x *= np.exp2(np.arange(INPUTS) // GROUP - 5, dtype=np.float32)
    x[:, GROUP : 2 * GROUP] = 0
    return x


def rounded_rows(x: np.ndarray, kind: str) -> np.ndarray:
    """x [rows, inputs] as `groups` takes it for this kind: uint8 [rows, bytes of a row]."""
    quantised, rows = QUANTISED[kind], len(x)
    groups = x.astype(np.float32).reshape(rows, -1, GROUP)
    largest = np.abs(groups).max(-1)
    usable = largest > SMALLEST
    with np.errstate(divide="ignore"):
        turned = np.where(usable, np.float32(127) / largest, np.float32(0))
    integers = np.rint(groups * turned[..., None]).astype(np.int8)
    steps = largest * np.float32(1 / 127)
    sums = integers.reshape(rows, -1, quantised.scaled).sum(-1, dtype=np.int32)
    words = steps * sums.astype(np.float32) if quantised.minima else -quantised.offset * sums
    parts = (np.ascontiguousarray(part).view(np.uint8) for part in (integers, steps, words))
    groups = INPUTS // GROUP
    return np.concatenate([part.reshape(rows, groups, -1) for part in parts], 2).reshape(rows, -1)


def parts_of(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of rounded rows: the numbers, int8 [rows, INPUTS], and the steps, float32 [rows, groups]."""
    groups = rows.reshape(len(rows), INPUTS // GROUP, -1)
    integers = groups[..., :GROUP].copy().view(np.int8).reshape(len(rows), INPUTS)
    return integers, groups[..., GROUP : GROUP + 4].copy().view(np.float32)[..., 0]


@lru_cache
def matrix(kind: str) -> np.ndarray:
    return blocks_of(fields(random_blocks(kind, OUTPUTS, INPUTS), kind), kind)


def product(rows: np.ndarray, kind: str) -> np.ndarray:
    """float32 [rows, OUTPUTS] of rounded rows, by the compiled tiles."""
    multiply = ctypes.CFUNCTYPE(None, *(ctypes.c_int64,) * 8)(compiled.crew().multiply(kind))
    blocks, out = matrix(kind), []
    for first in range(0, len(blocks), PART // LANES):
        part = np.full((len(rows), PART), np.nan, np.float32)
        own = blocks[first : first + PART // LANES]
        row = (rows.ctypes.data, rows.strides[0], len(rows))
        multiply(own.ctypes.data, own[0].nbytes, own.shape[1], *row, part.ctypes.data, len(own))
        assert np.isnan(part[:, len(own) * LANES :]).all()  # other products write to these columns
        out.append(part)
    return np.concatenate(out, 1)[:, :OUTPUTS]


def fused(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """a * b + c of float32, rounded once: the sum in float64 is rounded to odd, then to float32."""
    exact, c = a.astype(np.float64) * b, c.astype(np.float64)
    total = exact + c
    back = total - exact
    rest = (exact - (total - back)) + (c - back)
    odd = (total.view(np.int64) & 1).astype(bool)
    turned = np.nextafter(total, np.where(rest > 0, np.inf, -np.inf))
    return np.where((rest != 0) & ~odd, turned, total).astype(np.float32)


def reference(rows: np.ndarray, kind: str) -> np.ndarray:
    """The product as `groups` describes it, with NumPy."""
    form, file = QUANTISED[kind], fields(random_blocks(kind, OUTPUTS, INPUTS), kind)
    integers, steps = parts_of(rows)
    integers = integers.astype(np.int64)
    scales = file.factors.astype(np.float32)
    if file.wholes is not None:
        scales = np.repeat(scales, form.scales, 1) * file.wholes
    out = np.zeros((len(rows), OUTPUTS), np.float32)
    for number in range(INPUTS // form.scaled):
        columns = slice(number * form.scaled, (number + 1) * form.scaled)
        total = integers[:, columns] @ (file.q[:, columns].astype(np.int64) - form.offset).T
        step = steps[:, number * form.scaled // GROUP, None]
        out = fused(total.astype(np.float32), scales[None, :, number, 0] * step, out)
        if form.minima:
            sums = integers[:, columns].sum(1, dtype=np.int64).astype(np.float32)[:, None]
            out = fused(np.broadcast_to(scales[:, number, 1], out.shape), step * sums, out)
    return out


@pytest.mark.parametrize("kind", QUANTISED)
def test_numbers_of_a_file_are_those_that_gguf_reads(kind):
    raw = random_blocks(kind, 33, INPUTS)
    want = gguf.quants.dequantize(raw, gguf.GGMLQuantizationType[kind])
    assert np.array_equal(fields(raw, kind).values(kind), want)
    blocks = blocks_of(fields(raw, kind), kind)
    assert blocks.shape == (3, INPUTS // QUANTISED[kind].span, QUANTISED[kind].unit_bytes)
    assert np.array_equal(fields_of(blocks, kind).values(kind)[:33], want)
    assert blocks.nbytes <= raw.nbytes * 48 / 33 * 1.03  # at most as many bits as in the file


@pytest.mark.parametrize("kind", QUANTISED)
def test_products_are_those_of_the_rounded_numbers_to_the_bit(kind):
    """Products of every number of rows up to `MOST`. The exact product shows the effect of rounded inputs."""
    rows = rounded_rows(numbers(MOST), kind)
    want = reference(rows, kind)
    for count in range(1, MOST + 1):
        assert np.array_equal(product(rows[:count], kind), want[:count]), count
    weights = fields(random_blocks(kind, OUTPUTS, INPUTS), kind).values(kind)
    exact = numbers(MOST).astype(np.float64) @ weights.T
    assert 1e-4 < np.abs(want - exact).max() / np.abs(exact).max() < 2e-2


@pytest.mark.parametrize("kind", ["Q4_K", "Q5_0", "Q6_K"])
def test_inputs_are_rounded_as_described(kind):
    rounding = numba.njit(lambda *arguments: round_groups(*arguments))
    x = numbers(4)
    x[0, :4] = [0.5 * 2.0**-5, 1.5, -2.5, 127]  # ties, with a step of 1
    x[0, 4:GROUP] = 0
    x[1, :GROUP] = 1e-31
    x[2, 0] = np.inf
    x[2, 40] = np.nan
    want = rounded_rows(x[[0, 1, 3]], kind)
    have = np.zeros((4, want.shape[1]), np.uint8)
    for row in range(4):
        rounding(x[row].ctypes.data, have[row].ctypes.data, INPUTS, QUANTISED[kind].rounding)
    assert np.array_equal(have[[0, 1, 3]], want)
    (integers, steps), error = parts_of(want), np.abs(x[[0, 1, 3]]).reshape(3, -1, GROUP).max(-1) / 254
    off = np.abs(integers.reshape(3, -1, GROUP) * steps[..., None] - x[[0, 1, 3]].reshape(3, -1, GROUP))
    assert (off <= error[..., None] * 1.001 + 1e-30).all()
    assert not np.isfinite(product(have[2:3], kind)).any()  # NaN stays NaN


def digest() -> str:
    """SHA-256 of the products of all kinds with some numbers of rows."""
    total = hashlib.sha256()
    for kind in QUANTISED:
        for count in (1, 2, 5, 7, 13):
            total.update(product(rounded_rows(numbers(count), kind), kind).tobytes())
    return total.hexdigest()


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS)
def test_every_kind_of_processor_gives_the_same_bits(path):
    if not compiled.crew() or (os.uname().machine == "x86_64") != bool(PATHS[path][1]):
        pytest.skip("this machine can't run the code of this processor")
    if "avxvnni" in PATHS[path][1] and "avx_vnni" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("this processor lacks AVX-VNNI")
    name, features = PATHS[path]
    settings = {"NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": features}
    script = "from specdec.models.kernels import groups; from tests.models.test_groups import digest; " + (
        "print(groups.VNNI, groups.PAIRED, groups.SIGNED, digest())"
    )
    expected = [*(str(each) for each in ("avxvnni" in features, "avx2" in features, "m1" in name)), digest()]
    assert printed(script, settings).split() == expected
