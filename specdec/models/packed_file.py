"""A safetensors file with a model's matrices in the blocks that the compiled forward pass reads.

A matrix keeps all its bits, or is rounded to four or eight. The file is written matrix after matrix, so that
at most one matrix is in memory.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor

from specdec.models.gguf.fields import PLAIN, fields, rows_of
from specdec.models.gguf.header import BrokenFileError
from specdec.models.gguf.weights import Stored, rows_in_halves
from specdec.models.kernels.layout import LANES, QUANTISED
from specdec.models.kernels.packing import pack
from specdec.models.kernels.quantised import blocks_of, chosen_outputs, fields_of, rounded_fields

FILE, KINDS = "packed.safetensors", "kinds"
EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"
ROUNDED_KINDS = {"int8": "Q8_0", "int4": "Q4_0"}
"""For the dtypes "int8" and "int4", the GGUF type to which matrices of more bits are rounded."""
AT_ONCE = 1 << 22
"""The number of entries of a matrix that are packed at once."""
SMALLEST_SCALE = 2.0**-20
"""Rows whose scales are all below this are refused: float16 numbers of this size have too few digits."""
ROOM = 512
"""Bytes reserved for each entry of the table of tensors, which begins the file and is written last. As a
multiple of 64, it lets the numbers begin at a multiple of 64 bytes; matrices are then read 3% faster."""
_DTYPES = {torch.uint8: "U8", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}


class PackedMatrices:
    """The tensors of a model as they are in the file, by transformers' names.

    tensors: the embedding's rows in the bits of the original file, the other matrices as blocks (`Packed`),
    and norms and biases in float32. kinds: the type of each matrix; for the embedding, that of the original.
    """

    def __init__(self, tensors: Mapping[str, Tensor], kinds: Mapping[str, str]):
        self.tensors, self.kinds = tensors, kinds

    @property
    def read_bytes(self) -> int:
        """Bytes of weights that a forward pass reads: all matrices except the embedding."""
        return sum(tensor.nbytes for name, tensor in self.tensors.items() if name != EMBEDDING)

    def small(self) -> dict[str, Tensor]:
        """The weights of norms and biases, by their names."""
        return {name: tensor for name, tensor in self.tensors.items() if name not in self.kinds}

    def embedded(self, token_ids: Tensor) -> Tensor:
        """The embeddings of these tokens, float32 [n, width]."""
        return torch.from_numpy(rows_of(self.tensors[EMBEDDING][token_ids].numpy(), self.kinds[EMBEDDING]))

    def with_rows(self, name: str, ids: Tensor) -> PackedMatrices:
        """A copy in which matrix `name` has only the outputs `ids`, in this order, padded to whole blocks."""
        blocks, kind = self.tensors[name], self.kinds[name]
        ids = torch.nn.functional.pad(ids[None], (0, -len(ids) % LANES), mode="replicate")[0]
        if kind in QUANTISED:
            rows = torch.from_numpy(chosen_outputs(blocks.numpy(), kind, ids.numpy()))
        else:
            rows = blocks[ids // LANES, :, ids % LANES].unflatten(0, (-1, LANES)).transpose(1, 2).contiguous()
        return PackedMatrices({**self.tensors, name: rows}, self.kinds)

    def values(self, name: str, first: int = 0, end: int | None = None) -> Tensor:
        """A matrix as float32 [outputs, inputs], or only its blocks from `first` to `end`.

        Outputs are padded to whole blocks.
        """
        blocks, kind = self.tensors[name][first:end], self.kinds[name]
        if kind in QUANTISED:
            return torch.from_numpy(fields_of(blocks.numpy(), kind).values(kind))
        return blocks.float().transpose(1, 2).reshape(len(blocks) * LANES, -1)


def write_packed(folder: Path, tensors: Iterable[Stored], kind: str | None, report: Any) -> None:
    """Writes the file with all matrices of a model into a folder.

    kind: a value of `ROUNDED_KINDS`, or None to keep all bits. report(done, total): called with the number of
    written tensors. BrokenFileError if weights are NaN or infinite, or can't be rounded.
    """
    tensors = list(tensors)
    tied = all(tensor.name != HEAD for tensor in tensors)
    kinds: dict[str, str] = {}
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:

        def parts() -> Iterator[tuple[str, Iterable[Tensor]]]:
            for number, tensor in enumerate(tensors):
                report(number, len(tensors))
                yield from _parts(tensor, tied, kind, kinds, pool)

        write_tensors(folder / FILE, parts(), len(tensors) + 1, lambda: {KINDS: json.dumps(kinds)})


def write_tensors(
    path: Path,
    tensors: Iterable[tuple[str, Iterable[Tensor]]],
    most: int,
    metadata: Callable[[], dict[str, str]],
) -> None:
    """Writes a safetensors file tensor after tensor, so that at most one tensor is in memory.

    tensors: names, each with the tensor's rows in pieces. most: the largest number of tensors. metadata: is
    called after the last tensor. BrokenFileError if names are too long.
    """
    end, room = 0, ROOM * (most + 1)
    table: dict[str, Any] = {}
    with path.open("wb") as file:
        file.seek(room)
        for name, pieces in tensors:
            start, rows = end, 0
            for piece in pieces:
                file.write(piece.view(torch.uint8).numpy().data)
                end, rows = end + piece.nbytes, rows + len(piece)
            shape = (rows, *piece.shape[1:])
            table[name] = {"dtype": _DTYPES[piece.dtype], "shape": shape, "data_offsets": (start, end)}
        text = json.dumps({"__metadata__": metadata(), **table}).encode()
        if len(text) > room - 8:
            raise BrokenFileError(f"has names of tensors that are too long: {max(table, key=len)[:80]}")
        file.seek(0)
        file.write((room - 8).to_bytes(8, "little") + text.ljust(room - 8))


def read_packed(folder: Path) -> PackedMatrices:
    """The matrices in the file of a folder, mapped into memory."""
    with safe_open(folder / FILE, "pt") as file:
        kinds = json.loads(file.metadata()[KINDS])
    return PackedMatrices(load_file(folder / FILE), kinds)


def _parts(
    tensor: Stored, tied: bool, kind: str | None, kinds: dict[str, str], pool: Executor
) -> Iterator[tuple[str, Iterable[Tensor]]]:
    """Yields the name of a tensor in the new file, and its rows in pieces. A tied embedding is yielded twice,
    once as the output matrix. The types of matrices are written to `kinds`."""
    name = tensor.name
    if len(tensor.shape) == 1:
        numbers = rows_of(tensor.raw.reshape(tensor.shape[0], -1), tensor.type)
        _check_finite(numbers, name)
        ordered = rows_in_halves(torch.from_numpy(numbers), tensor.heads)
        yield name, [ordered.reshape(tensor.shape).contiguous()]
        return
    if name == EMBEDDING:
        kinds[name] = tensor.type
        yield name, pool.map(partial(_checked, tensor), _pieces(tensor))
    if name != EMBEDDING or tied:
        name = HEAD if name == EMBEDDING else name
        own = PLAIN.get(tensor.type, tensor.type)
        bits = QUANTISED[own].bits if own in QUANTISED else 16
        kinds[name] = kind if kind is not None and bits > QUANTISED[kind].bits else own
        yield name, pool.map(partial(_packed, tensor, kinds[name], name), _pieces(tensor))


def _pieces(tensor: Stored) -> Iterator[slice]:
    """Slices that cut a matrix's rows into pieces; each piece consists of whole blocks of `LANES` rows."""
    step = max(1, AT_ONCE // tensor.shape[1] // LANES) * LANES
    return (slice(first, first + step) for first in range(0, tensor.shape[0], step))


def _packed(tensor: Stored, kind: str, name: str, rows: slice) -> Tensor:
    """Some rows of a matrix, packed in blocks; BrokenFileError if numbers or scales are not finite."""
    places: Any = rows
    if tensor.heads:
        places = rows_in_halves(torch.arange(tensor.shape[0]), tensor.heads).numpy()[rows]
    raw = np.ascontiguousarray(tensor.raw[places])
    if kind == tensor.type:
        numbers = fields(raw, kind)
    else:
        values = rows_of(raw, tensor.type)
        _check_finite(values, name)
        if kind not in QUANTISED:
            return pack(torch.from_numpy(values), None, kind).weights
        numbers = rounded_fields(values, kind)
        if values.any() and not SMALLEST_SCALE <= np.abs(numbers.factors).max() < np.inf:
            raise BrokenFileError(
                f"has weights that are too large or too small to be rounded to {kind}: {name}"
            )
    _check_finite(numbers.factors, name)
    return torch.from_numpy(blocks_of(numbers, kind))


def _checked(tensor: Stored, rows: slice) -> Tensor:
    """Some rows as the file stores them; BrokenFileError if they hold NaN or infinity."""
    raw = np.ascontiguousarray(tensor.raw[rows])
    quantised = tensor.type in QUANTISED
    _check_finite(fields(raw, tensor.type).factors if quantised else rows_of(raw, tensor.type), tensor.name)
    return torch.from_numpy(raw if raw.flags.writeable else raw.copy())


def _check_finite(numbers: np.ndarray, name: str) -> None:
    if not np.isfinite(numbers).all():
        raise BrokenFileError(f"has weights that are not numbers: {name} holds NaN or infinity")
