"""Converts matrices of four to eight bits from their parts (`Fields`) to the blocks of `groups`, and back."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from specdec.models.kernels.layout import GROUP, LANES, QUANTISED, SMALLEST


class Fields(NamedTuple):
    """A quantised matrix [outputs, inputs] in parts; `layout.Quantised` defines the terms.

    q: uint8 [outputs, inputs]. factors: float16 [outputs, units, 1 or 2], first for scales, then for minima
    if the type has minima. wholes: int8 [outputs, scales of a row, 1 or 2] if scales are factored, else None.
    """

    q: np.ndarray
    factors: np.ndarray
    wholes: np.ndarray | None

    def values(self, kind: str) -> np.ndarray:
        """The matrix as float32 [outputs, inputs]."""
        quantised = QUANTISED[kind]
        parts = self.factors.astype(np.float32)
        if self.wholes is not None:
            parts = np.repeat(parts, quantised.scales, 1) * self.wholes
        q = self.q.reshape(len(self.q), -1, quantised.scaled).astype(np.float32)
        result = (q - quantised.offset) * parts[:, :, :1]
        if quantised.minima:
            result += parts[:, :, 1:]
        return result.reshape(self.q.shape)


def rounded_fields(values: np.ndarray, kind: str) -> Fields:
    """Quantise a matrix [outputs, inputs] to a type (`kind`) that stores one plain scale per group, and
    no minimum.

    In each group, a first scale maps the number of largest magnitude to the type's lowest integer. All
    numbers are divided by it and rounded to integers q. The stored scale is the one with the smallest squared
    error for these q.
    """
    quantised = QUANTISED[kind]
    groups = values.reshape(len(values), -1, quantised.scaled)
    largest = np.take_along_axis(groups, np.abs(groups).argmax(-1)[..., None], -1)
    # as in ggml: four bits use -8 to 7, and eight bits use -127 to 127
    lowest = -quantised.offset if quantised.bits == 4 else 1 - quantised.offset
    with np.errstate(divide="ignore"):
        turned = np.where(np.abs(largest) > SMALLEST, np.float32(lowest) / largest, np.float32(0))
    integers = np.rint(groups * turned).clip(lowest, quantised.offset - 1)
    squares = np.square(integers).sum(-1)
    scales = (integers * groups).sum(-1) / np.maximum(squares, 1)
    q = (integers + quantised.offset).astype(np.uint8).reshape(values.shape)
    with np.errstate(over="ignore"):  # the code that stores scales refuses infinite ones
        factors = scales[..., None].astype(np.float16)
    return Fields(q, factors, None)


def blocks_of(fields: Fields, kind: str) -> np.ndarray:
    """Packs a matrix as uint8 [blocks, units, bytes of a unit]; outputs are padded to whole blocks."""
    quantised, (outputs, inputs) = QUANTISED[kind], fields.q.shape
    count, units = -(-outputs // LANES), inputs // quantised.span
    q = _side_by_side(fields.q.view(np.uint32).reshape(outputs, units, -1), count)  # four inputs in a word
    result = np.empty((count, units, quantised.unit_bytes), np.uint8)
    offset = _put(result, 0, _side_by_side(fields.factors, count))
    if fields.wholes is not None:
        wholes = fields.wholes.reshape(outputs, units, quantised.scales, -1).transpose(0, 1, 3, 2)
        offset = _put(result, offset, _side_by_side(wholes.reshape(outputs, units, -1), count))
    groups = q.reshape(count, units, quantised.span // GROUP, GROUP // 4, LANES)
    _put(result, offset, _lines(groups, quantised.bits))
    return result


def _side_by_side(numbers: np.ndarray, blocks: int) -> np.ndarray:
    """Reorders numbers [outputs, units, n] to [blocks, units, n, LANES], with zeros as padding."""
    padding = [(0, blocks * LANES - len(numbers)), (0, 0), (0, 0)]
    padded = np.pad(numbers, padding) if padding[0][1] else numbers
    return padded.reshape(blocks, LANES, *numbers.shape[1:]).transpose(0, 2, 3, 1)


def _put(result: np.ndarray, offset: int, numbers: np.ndarray) -> int:
    """Write numbers [blocks, units, ...] into all units from byte `offset` on; return the next free byte."""
    data = np.ascontiguousarray(numbers).reshape(*result.shape[:2], -1).view(np.uint8)
    result[..., offset : offset + data.shape[-1]] = data
    return offset + data.shape[-1]


def _lines(words: np.ndarray, bits: int) -> np.ndarray:
    """Packs groups of words [..., 8, LANES], each of four q, into lines [..., lines, LANES]."""
    if bits == 8:
        return words
    low, more = np.uint32(0x0F0F0F0F), bits - 4
    lines = [(words[..., 0::2, :] & low) | (words[..., 1::2, :] & low) << np.uint32(4)]
    per_line = 8 // more if more else 0
    for first in range(0, 8 if more else 0, per_line or 8):
        high = (words[..., first : first + per_line, :] >> np.uint32(4)) & np.uint32(
            0x01010101 * ((1 << more) - 1)
        )
        shifts = (np.arange(per_line, dtype=np.uint32) * np.uint32(more))[:, None]
        lines.append(np.bitwise_or.reduce(high << shifts, axis=-2)[..., None, :])
    return np.concatenate(lines, -2)


def chosen_outputs(blocks: np.ndarray, kind: str, ids: np.ndarray) -> np.ndarray:
    """The outputs `ids`, int64 [n], of a packed matrix [blocks, units, bytes], as a packed matrix."""
    block_numbers, places = np.unique(ids // LANES, return_inverse=True)
    rows = places * LANES + ids % LANES
    q, factors, wholes = fields_of(blocks[block_numbers], kind)
    return blocks_of(Fields(q[rows], factors[rows], None if wholes is None else wholes[rows]), kind)


def fields_of(blocks: np.ndarray, kind: str) -> Fields:
    """Unpacks a matrix [blocks, units, bytes]: the reverse of `blocks_of`, but with the padding outputs."""
    quantised, (count, units, _) = QUANTISED[kind], blocks.shape
    parts, outputs = 1 + quantised.minima, count * LANES
    end_of_factors = 2 * LANES * parts

    def by_output(numbers: np.ndarray) -> np.ndarray:
        """Reorders numbers [blocks, units, n, LANES] to [outputs, units, n]."""
        sides = numbers.reshape(count, units, -1, LANES)
        return np.ascontiguousarray(sides.transpose(0, 3, 1, 2)).reshape(outputs, units, -1)

    factors = by_output(blocks[..., :end_of_factors].copy().view(np.float16))
    wholes = None
    if quantised.factored:
        wholes = by_output(blocks[..., end_of_factors : quantised.head_bytes].view(np.int8))
        wholes = wholes.reshape(outputs, units, parts, -1).swapaxes(2, 3).reshape(outputs, -1, parts)
    groups = blocks[..., quantised.head_bytes :].reshape(count, units, -1, quantised.group_bytes)
    lines = np.ascontiguousarray(groups).view(np.uint32).reshape(*groups.shape[:3], -1, LANES)
    q = by_output(_q(lines, quantised.bits)).view(np.uint8)
    return Fields(q.reshape(outputs, -1), factors, wholes)


def _q(lines: np.ndarray, bits: int) -> np.ndarray:
    """Unpacks lines into words [..., 8, LANES] of four q each: the reverse of `_lines`."""
    if bits == 8:
        return lines
    low, more = np.uint32(0x0F0F0F0F), bits - 4
    words = np.empty((*lines.shape[:-2], 8, LANES), np.uint32)
    words[..., 0::2, :] = lines[..., :4, :] & low
    words[..., 1::2, :] = (lines[..., :4, :] >> np.uint32(4)) & low
    for vector in range(8 if more else 0):
        line, place = divmod(vector, 8 // more)
        high = lines[..., 4 + line, :] >> np.uint32(place * more)
        words[..., vector, :] |= (high & np.uint32(0x01010101 * ((1 << more) - 1))) << np.uint32(4)
    return words
