"""Reads the header of a GGUF file: keys with their values, and the table of tensors.

    "GGUF" | version | tensors | keys | key, type, value ... | name, shape, type, offset ... | padding | data

All numbers are little-endian. Before memory is allocated for an array or a text, its length is compared with
the bytes that remain in the file. So reading takes no more memory than a small multiple of the header.
Arrays of arrays are refused; no model uses them.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

MAGIC = b"GGUF"
VERSIONS = (2, 3)
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""Types of metadata values: the number of the type in the file, with its letter in a format of `struct`."""
_TEXT, _ARRAY = 8, 9
TYPES = (
    *("F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"),
    *("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"),
)
"""Types of tensors that can be read, by their names in the package gguf."""
ALIGNMENT = 32
"""The alignment of the tensors' data in bytes, unless the file states another."""


class Tensor(NamedTuple):
    """One tensor. shape: outermost dimension first. start: its first byte in the file. nbytes: its size."""

    name: str
    shape: tuple[int, ...]
    type: str
    start: int
    nbytes: int


@dataclass(frozen=True)
class Header:
    """The header of a GGUF file. keys: metadata values by key. tensors: all tensors and where they lie."""

    keys: dict[str, Any]
    tensors: tuple[Tensor, ...]

    @property
    def architecture(self) -> str:
        """The name of the model's architecture, as llama.cpp writes it."""
        return str(self.keys["general.architecture"])


class BrokenFileError(ValueError):
    """A model's file is damaged, or holds something that is not supported.

    The message is a sentence without a subject; the code that catches the error puts the file's name first.
    """


def read_header(path: Path) -> Header:
    """The header of the file at this path. Raises BrokenFileError, with the fault, if the file is damaged."""
    with path.open("rb") as file:
        if file.read(4) != MAGIC:
            raise BrokenFileError("is no GGUF file: it does not begin with the letters GGUF")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _Reader(data).header()


class _Reader:
    """Reads a file's header from the first byte to the last. offset: the position of the next byte."""

    def __init__(self, data: mmap.mmap):
        self.data, self.size, self.offset = data, len(data), 4

    def header(self) -> Header:
        version, tensors, keys = self._unpack("IQQ")
        if version not in VERSIONS:
            versions = " and ".join(map(str, VERSIONS))
            raise BrokenFileError(f"has version {version}; supported: versions {versions}, little-endian")
        values = self._keys(keys)
        if not isinstance(values.get("general.architecture"), str):
            raise BrokenFileError("names no architecture (general.architecture)")
        if isinstance(parts := values.get("split.count"), int) and parts > 1:
            raise BrokenFileError(
                f"is one of {parts} parts of a model; `llama-gguf-split --merge` joins all parts to one file"
            )
        table = [self._tensor() for _ in range(tensors)]
        return Header(values, self._tensors(table, values.get("general.alignment", ALIGNMENT)))

    def _keys(self, count: int) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for _ in range(count):
            key = self._text()
            if key in values:
                raise BrokenFileError(f"holds the key {key!r} twice")
            (kind,) = self._unpack("I")
            values[key] = self._array(key) if kind == _ARRAY else self._value(kind, key)
        return values

    def _value(self, kind: int, key: str) -> Any:
        if kind == _TEXT:
            return self._text()
        if kind not in _SCALARS:
            raise BrokenFileError(f"has a value of the unknown type {kind} at {key!r}")
        return self._unpack(_SCALARS[kind])[0]

    def _array(self, key: str) -> list[str] | np.ndarray:
        kind, count = self._unpack("IQ")
        if kind == _ARRAY:
            raise BrokenFileError(f"has an array of arrays at {key!r}")
        if kind == _TEXT:
            self._need(8 * count)  # each text has a length of 8 bytes
            return [self._text() for _ in range(count)]
        if kind not in _SCALARS:
            raise BrokenFileError(f"has an array of the unknown type {kind} at {key!r}")
        dtype = np.dtype("<" + _SCALARS[kind])
        self._need(dtype.itemsize * count)
        numbers = np.frombuffer(self.data, dtype, count, self.offset).copy()
        self.offset += numbers.nbytes
        return numbers

    def _tensor(self) -> tuple[str, tuple[int, ...], int, int]:
        """Reads the next tensor's entry in the table: its name, shape, number of the type, and offset."""
        name = self._text()
        (dimensions,) = self._unpack("I")
        shape = self._unpack(f"{dimensions}Q")
        kind, offset = self._unpack("IQ")
        return name, tuple(reversed(shape)), kind, offset

    def _tensors(
        self, table: list[tuple[str, tuple[int, ...], int, int]], alignment: Any
    ) -> tuple[Tensor, ...]:
        """The tensors with their positions in the file.

        BrokenFileError if a tensor exceeds the file or two tensors overlap.
        """
        if not isinstance(alignment, int) or not 1 <= alignment <= 1 << 20 or alignment & (alignment - 1):
            raise BrokenFileError(f"has the alignment {alignment!r:.40}, which is no power of two")
        from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

        first = self.offset + -self.offset % alignment
        names, tensors = {each.value: each.name for each in GGMLQuantizationType}, []
        for name, shape, kind, offset in table:
            type_name = names.get(kind, f"the unknown type {kind}")
            if type_name not in TYPES:
                raise BrokenFileError(f"stores {name!r} as {type_name}; supported: {', '.join(TYPES)}")
            values, size = GGML_QUANT_SIZES[GGMLQuantizationType(kind)]
            # a row is stored in whole blocks
            if not shape or 0 in shape or shape[-1] % values:
                raise BrokenFileError(f"has {name!r} with the shape {shape}, which {type_name} can't store")
            tensors.append(Tensor(name, shape, type_name, first + offset, prod(shape) // values * size))
        end = first
        for tensor in sorted(tensors, key=lambda tensor: tensor.start):
            if tensor.start < end:
                raise BrokenFileError(f"has tensors that overlap: {tensor.name!r} and the one before it")
            end = tensor.start + tensor.nbytes
            if end > self.size:
                raise BrokenFileError(
                    f"is cut off: {tensor.name!r} ends at byte {end:,}, and the file has {self.size:,}"
                )
        if len({tensor.name for tensor in tensors}) < len(tensors):
            raise BrokenFileError("holds two tensors of one name")
        return tuple(tensors)

    def _text(self) -> str:
        (length,) = self._unpack("Q")
        self._need(length)
        text = self.data[self.offset : self.offset + length]
        self.offset += length
        try:
            return text.decode()
        except UnicodeDecodeError as error:
            raise BrokenFileError(f"has a text at byte {self.offset - length:,} that is not UTF-8") from error

    def _unpack(self, form: str) -> tuple[Any, ...]:
        size = struct.calcsize("<" + form)
        self._need(size)
        values = struct.unpack_from("<" + form, self.data, self.offset)
        self.offset += size
        return values

    def _need(self, count: int) -> None:
        """BrokenFileError if fewer than `count` bytes remain."""
        if count > self.size - self.offset:
            raise BrokenFileError(
                f"is cut off at byte {self.size:,}: {count:,} bytes should follow byte {self.offset:,}"
            )
