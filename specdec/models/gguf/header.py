"""Reads the header of a GGUF file: keys with their values, and the table of tensors.

    "GGUF" | version | tensors | keys | key, type, value ... | name, shape, type, offset ... | padding | data

All numbers are little-endian. Before memory is allocated for an array or a text, its length is compared with
the bytes that remain in the file. So reading takes no more memory than a small multiple of the header.
Arrays of arrays are refused; no model uses them.
"""

from __future__ import annotations

import mmap
import struct
from contextlib import suppress
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
BLOCKS = {
    "F32": (0, 1, 4),
    "F16": (1, 1, 2),
    "Q4_0": (2, 32, 18),
    "Q4_1": (3, 32, 20),
    "Q5_0": (6, 32, 22),
    "Q5_1": (7, 32, 24),
    "Q8_0": (8, 32, 34),
    "Q2_K": (10, 256, 84),
    "Q3_K": (11, 256, 110),
    "Q4_K": (12, 256, 144),
    "Q5_K": (13, 256, 176),
    "Q6_K": (14, 256, 210),
    "BF16": (30, 1, 2),
}
"""Types of tensors that can be read: the type's number in the file, values and bytes of one block."""
_BY_NUMBER = {number: (name, values, size) for name, (number, values, size) in BLOCKS.items()}
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


def _type_name(number: int) -> str:
    """A tensor type's name in the package gguf; "the unknown type N" if the package has no name for it."""
    with suppress(ImportError, ValueError):
        from gguf import GGMLQuantizationType

        return GGMLQuantizationType(number).name
    return f"the unknown type {number}"


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
        first = self.offset + -self.offset % alignment
        tensors = []
        for name, shape, kind, offset in table:
            if kind not in _BY_NUMBER:
                types = ", ".join(BLOCKS)
                raise BrokenFileError(f"stores {name!r} as {_type_name(kind)}; supported: {types}")
            type_name, values, size = _BY_NUMBER[kind]
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
