"""A file of safetensors with a model's matrices in the blocks that the compiled forward reads.

A matrix keeps all its bits, or is rounded to four or eight. The file is written matrix after matrix, so that
never more than one of them is in memory.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor

from specdec.models.gguf.fields import fields, rows_of
from specdec.models.gguf.header import BrokenFileError
from specdec.models.gguf.weights import Stored, rows_in_halves
from specdec.models.kernels.layout import LANES, QUANTISED
from specdec.models.kernels.quantised import blocks_of, chosen_outputs, fields_of, rounded_fields

FILE, KINDS = "packed.safetensors", "kinds"
EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"
ROUNDED_KINDS = {"int8": "Q8_0", "int4": "Q4_0"}
"""The kind to which matrices of more bits are rounded, by the name of `dtype`."""
AT_ONCE = 1 << 22
"""Numbers of a matrix that are packed at once."""
SMALLEST_SCALE = 2.0**-20
"""The largest scale of rows packed at once must be at least this: smaller float16 numbers have few digits."""
_DTYPES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}
_SAFE = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}


class PackedMatrices:
    """The matrices of a model as they lie in a file, by transformers' names.

    tensors: of each matrix the blocks of a `Packed`, of the embedding its rows as the GGUF file has them, and
    norms and biases in float32. kinds: of each matrix; a type of GGUF for the embedding's rows.
    """

    def __init__(self, tensors: Mapping[str, Tensor], kinds: Mapping[str, str]):
        self.tensors, self.kinds = tensors, kinds

    @property
    def read_bytes(self) -> int:
        """Bytes of weights that a forward reads: all but the rows of the embedding."""
        return sum(tensor.nbytes for name, tensor in self.tensors.items() if name != EMBEDDING)

    def small(self) -> dict[str, Tensor]:
        """Norms and biases."""
        return {name: tensor for name, tensor in self.tensors.items() if name not in self.kinds}

    def embedded(self, token_ids: Tensor) -> Tensor:
        """float32 [n, width], rows of the embedding."""
        return torch.from_numpy(rows_of(self.tensors[EMBEDDING][token_ids].numpy(), self.kinds[EMBEDDING]))

    def with_rows(self, name: str, ids: Tensor) -> PackedMatrices:
        """The same matrices, one of them with only these outputs, in this order, padded to whole blocks."""
        blocks, kind = self.tensors[name], self.kinds[name]
        ids = torch.nn.functional.pad(ids[None], (0, -len(ids) % LANES), mode="replicate")[0]
        if kind in QUANTISED:
            rows = torch.from_numpy(chosen_outputs(blocks.numpy(), kind, ids.numpy()))
        else:
            rows = blocks[ids // LANES, :, ids % LANES].unflatten(0, (-1, LANES)).transpose(1, 2).contiguous()
        return PackedMatrices({**self.tensors, name: rows}, self.kinds)

    def values(self, name: str, first: int = 0, end: int | None = None) -> Tensor:
        """float32 [outputs, inputs] of a matrix, or of its blocks from `first` to `end`.

        Outputs are padded to whole blocks.
        """
        blocks, kind = self.tensors[name][first:end], self.kinds[name]
        if kind in QUANTISED:
            return torch.from_numpy(fields_of(blocks.numpy(), kind).values(kind))
        return blocks.float().transpose(1, 2).reshape(len(blocks) * LANES, -1)


class _Entry(NamedTuple):
    """A tensor of the new file. kind: "" for norms and biases. pieces: functions that make its bytes."""

    name: str
    kind: str
    dtype: str
    shape: tuple[int, ...]
    pieces: Callable[[], Iterator[Callable[[], np.ndarray]]]


def write_packed(folder: Path, tensors: Iterable[Stored], kind: str | None, report: Any) -> None:
    """Writes the file with all matrices of a model into a folder.

    kind: a value of `ROUNDED_KINDS`, or None to keep all bits. report(done, total): called with the number of
    written tensors. BrokenFileError where weights are not numbers, or can't be rounded.
    """
    entries = list(_entries(list(tensors), kind))
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


def read_packed(folder: Path) -> PackedMatrices:
    """The matrices in a folder, mapped into memory."""
    with safe_open(folder / FILE, "pt") as file:
        kinds = json.loads(file.metadata()[KINDS])
    return PackedMatrices(load_file(folder / FILE), kinds)


def _entries(tensors: list[Stored], kind: str | None) -> Iterator[_Entry]:
    tied = HEAD not in {tensor.name for tensor in tensors}
    for tensor in tensors:
        name, raw = tensor.name, tensor.raw
        if len(tensor.shape) == 1:
            numbers = rows_of(raw.reshape(tensor.shape[0], -1), tensor.type)
            halves = rows_in_halves(torch.from_numpy(numbers), tensor.heads).numpy()
            yield _Entry(name, "", "F32", tensor.shape, partial(_whole, halves, name))
        elif name == EMBEDDING:
            yield _Entry(name, tensor.type, "U8", raw.shape, partial(_raw, tensor))
        if len(tensor.shape) == 2 and (name != EMBEDDING or tied):
            yield _matrix(tensor, HEAD if name == EMBEDDING else name, kind)


def _matrix(tensor: Stored, name: str, kind: str | None) -> _Entry:
    """The entry of a matrix under this name, rounded to `kind` where it has more bits."""
    (outputs, inputs), own = tensor.shape, _DTYPES.get(tensor.type, tensor.type)
    is_rounded = kind is not None and (own not in QUANTISED or QUANTISED[own].bits > QUANTISED[kind].bits)
    kind = kind if kind is not None and is_rounded else own
    blocks = -(-outputs // LANES)
    shape: tuple[int, ...] = (blocks, inputs, LANES, 1)
    if form := QUANTISED.get(kind):
        shape = (blocks, inputs // form.span, form.unit_bytes)
    dtype = "U8" if form else _SAFE[kind]
    places = rows_in_halves(torch.arange(outputs), tensor.heads).numpy()
    step = max(1, AT_ONCE // inputs // LANES) * LANES

    def pieces() -> Iterator[Callable[[], np.ndarray]]:
        for first in range(0, outputs, step):
            rows = places[first : first + step] if tensor.heads else slice(first, first + step)
            yield partial(_packed, tensor.raw, rows, own, kind, name)

    return _Entry(name, kind, dtype, shape, pieces)


def _packed(raw: np.ndarray, rows: Any, own: str, kind: str, name: str) -> np.ndarray:
    """Some rows of a matrix in blocks, as bytes; BrokenFileError where a scale is no number.

    own: its kind in the file.
    """
    raw = np.ascontiguousarray(raw[rows])
    if kind not in QUANTISED:
        size = _itemsize(_SAFE[kind])
        words = raw.view(f"<u{size}")
        _check_finite(rows_of(raw, _SAFE[kind]), name)
        padded = np.pad(words, [(0, -len(words) % LANES), (0, 0)])
        blocks = padded.reshape(-1, LANES, padded.shape[1]).transpose(0, 2, 1)
        return np.ascontiguousarray(blocks).view(np.uint8).reshape(-1)
    if kind == own:
        numbers = fields(raw, kind)
    else:
        values = rows_of(raw, _SAFE.get(own, own))
        _check_finite(values, name)
        numbers = rounded_fields(values, kind)
        if values.any() and not SMALLEST_SCALE <= np.abs(numbers.factors).max() < np.inf:
            raise BrokenFileError(
                f"has weights that are too large or too small to be rounded to {kind}: {name}"
            )
    _check_finite(numbers.factors, name)
    return blocks_of(numbers, kind).reshape(-1)


def _whole(numbers: np.ndarray, name: str) -> Iterator[Callable[[], np.ndarray]]:
    _check_finite(numbers, name)
    yield lambda: np.ascontiguousarray(numbers).view(np.uint8).reshape(-1)


def _raw(tensor: Stored) -> Iterator[Callable[[], np.ndarray]]:
    """The rows of an embedding as they are; BrokenFileError where a scale is no number."""
    step = max(1, AT_ONCE // tensor.shape[1])

    def piece(first: int) -> np.ndarray:
        rows = np.ascontiguousarray(tensor.raw[first : first + step])
        quantised = tensor.type in QUANTISED
        numbers = fields(rows, tensor.type).factors if quantised else rows_of(rows, tensor.type)
        _check_finite(numbers, tensor.name)
        return rows.reshape(-1)

    for first in range(0, tensor.shape[0], step):
        yield partial(piece, first)


def _check_finite(numbers: np.ndarray, name: str) -> None:
    if not np.isfinite(numbers).all():
        raise BrokenFileError(f"has weights that are not numbers: {name} holds NaN or infinity")


def _itemsize(dtype: str) -> int:
    return {"U8": 1, "F16": 2, "BF16": 2, "F32": 4}[dtype]
