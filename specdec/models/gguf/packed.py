"""A GGUF file's matrices in the blocks that the compiled forward reads, with all bits that the file has.

They are written to one file of safetensors, matrix after matrix, so that a model of any size takes no more
memory than a few rows while it is written.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from transformers import PreTrainedConfig

from specdec.models.gguf.fields import fields
from specdec.models.gguf.header import BrokenFileError, Header, Tensor
from specdec.models.gguf.matrices import PackedMatrices
from specdec.models.gguf.rows import PLAIN, rows_of
from specdec.models.gguf.weights import CONFIGS, names_of, rows_in_halves
from specdec.models.kernels.layout import LANES, QUANTISED
from specdec.models.kernels.packed_decoder import EMBEDDING
from specdec.models.kernels.quantised import blocks_of
from specdec.models.memory import without_weights

FILE, KINDS, HEAD = "packed.safetensors", "kinds", "lm_head.weight"
AT_ONCE = 1 << 22
"""Numbers of a matrix that are packed at once."""
_DTYPES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}
_SAFE = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}


class _Entry(NamedTuple):
    """A tensor of the new file. kind: of a matrix, or "" of norms and biases."""

    name: str
    kind: str
    dtype: str
    shape: tuple[int, ...]
    pieces: Callable[[], Iterator[Callable[[], np.ndarray]]]


def can_be_packed(header: Header) -> bool:
    """Whether a file has matrices of four to eight bits, and none that can't be packed."""
    types = {tensor.type for tensor in header.tensors if len(tensor.shape) == 2}
    return header.architecture in CONFIGS and bool(types & set(QUANTISED)) and types <= {*QUANTISED, *PLAIN}


def packed_bytes(header: Header) -> int:
    """Bytes of memory that the matrices of a file take."""
    return sum(tensor.nbytes for tensor in header.tensors)


def write_packed(path: Path, header: Header, config: PreTrainedConfig, folder: Path, report: Any) -> None:
    """Writes the file with all matrices of a model into a folder.

    report(done, total): called with the number of written tensors. BrokenFileError where the file's tensors
    are not those of its configuration.
    """
    _check_tensors(header, config)
    entries = list(_entries(path, header, config))
    table: dict[str, Any] = {
        "__metadata__": {KINDS: json.dumps({entry.name: entry.kind for entry in entries if entry.kind})}
    }
    end = 0
    for entry in entries:
        start, end = end, end + prod(entry.shape) * _itemsize(entry.dtype)
        table[entry.name] = {"dtype": entry.dtype, "shape": entry.shape, "data_offsets": (start, end)}
    text = json.dumps(table).encode()
    text += b" " * (-(len(text) + 8) % 64)
    with (folder / FILE).open("wb") as file, ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        file.write(len(text).to_bytes(8, "little") + text)
        for number, entry in enumerate(entries):
            report(number, len(entries))
            for piece in pool.map(lambda make: make(), entry.pieces()):
                file.write(piece.data)


def _check_tensors(header: Header, config: PreTrainedConfig) -> None:
    wanted = without_weights(config).state_dict()
    if config.tie_word_embeddings:
        del wanted[HEAD]
    names = names_of(header)
    there = {names[tensor.name]: tensor.shape for tensor in header.tensors if tensor.name in names}
    for name in sorted({*wanted, *there}):
        has, wants = there.get(name), tuple(wanted[name].shape) if name in wanted else None
        if has != wants:
            raise BrokenFileError(f"has {has or 'nothing'} as {name}, where {wants or 'nothing'} belongs")


def read_packed(folder: Path) -> PackedMatrices:
    """The matrices in a folder, mapped into memory."""
    with safe_open(folder / FILE, "pt") as file:
        kinds = json.loads(file.metadata()[KINDS])
    return PackedMatrices(load_file(folder / FILE), kinds)


def _entries(path: Path, header: Header, config: PreTrainedConfig) -> Iterator[_Entry]:
    names, data = names_of(header), np.memmap(path, mode="r")
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    tied = "output.weight" not in {tensor.name for tensor in header.tensors}
    for tensor in header.tensors:
        if tensor.name not in names:
            continue
        name, rows = names[tensor.name], data[tensor.start : tensor.start + tensor.nbytes]
        part = tensor.name.split(".")[-2]
        order = heads.get(part) if header.architecture == "llama" else None
        raw = rows.reshape(tensor.shape[0], -1)
        if len(tensor.shape) == 1:
            numbers = rows_in_halves(torch.from_numpy(rows_of(raw, tensor.type)), order).numpy()
            yield _Entry(name, "", "F32", tensor.shape, partial(_whole, numbers, name))
        elif name == EMBEDDING:
            yield _Entry(name, tensor.type, "U8", raw.shape, partial(_raw, raw, tensor, name))
        if len(tensor.shape) == 2 and (name != EMBEDDING or tied):
            name = HEAD if name == EMBEDDING else name
            yield _matrix(name, tensor, raw, order)


def _matrix(name: str, tensor: Tensor, raw: np.ndarray, order: int | None) -> _Entry:
    """The entry of a matrix. order: the heads whose rows are reordered."""
    (outputs, inputs), kind = tensor.shape, _DTYPES.get(tensor.type, tensor.type)
    blocks = -(-outputs // LANES)
    shape: tuple[int, ...] = (blocks, inputs, LANES, 1)
    if form := QUANTISED.get(kind):
        shape = (blocks, inputs // form.span, form.unit_bytes)
    dtype = "U8" if form else _SAFE[kind]
    places = rows_in_halves(torch.arange(outputs), order).numpy()
    step = max(1, AT_ONCE // inputs // LANES) * LANES

    def pieces() -> Iterator[Callable[[], np.ndarray]]:
        for first in range(0, outputs, step):
            rows = places[first : first + step] if order else slice(first, first + step)
            yield partial(_packed, raw, rows, kind, name)

    return _Entry(name, kind, dtype, shape, pieces)


def _packed(raw: np.ndarray, rows: Any, kind: str, name: str) -> np.ndarray:
    """Some rows of a matrix in blocks, as bytes; BrokenFileError where a scale is no number."""
    if kind not in QUANTISED:
        size = _itemsize(_SAFE[kind])
        words = np.ascontiguousarray(raw[rows]).view(f"<u{size}")
        _check_finite(rows_of(words.view(np.uint8), _SAFE[kind]), name)
        padded = np.pad(words, [(0, -len(words) % LANES), (0, 0)])
        blocks = padded.reshape(-1, LANES, padded.shape[1]).transpose(0, 2, 1)
        return np.ascontiguousarray(blocks).view(np.uint8).reshape(-1)
    numbers = fields(np.ascontiguousarray(raw[rows]), kind)
    _check_finite(numbers.factors, name)
    return blocks_of(numbers, kind).reshape(-1)


def _whole(numbers: np.ndarray, name: str) -> Iterator[Callable[[], np.ndarray]]:
    _check_finite(numbers, name)
    yield lambda: np.ascontiguousarray(numbers).view(np.uint8).reshape(-1)


def _raw(raw: np.ndarray, tensor: Tensor, name: str) -> Iterator[Callable[[], np.ndarray]]:
    """The rows of an embedding as they are; BrokenFileError where a scale is no number."""
    step = max(1, AT_ONCE // tensor.shape[1])

    def piece(first: int) -> np.ndarray:
        rows = np.ascontiguousarray(raw[first : first + step])
        quantised = tensor.type in QUANTISED
        _check_finite(fields(rows, tensor.type).factors if quantised else rows_of(rows, tensor.type), name)
        return rows.reshape(-1)

    for first in range(0, tensor.shape[0], step):
        yield partial(piece, first)


def _check_finite(numbers: np.ndarray, name: str) -> None:
    if not np.isfinite(numbers).all():
        raise BrokenFileError(f"has weights that are not numbers: {name} holds NaN or infinity")


def _itemsize(dtype: str) -> int:
    return {"U8": 1, "F16": 2, "BF16": 2, "F32": 4}[dtype]
