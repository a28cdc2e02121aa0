"""A topology as index tensors on a device: all that a round has to know of its shape, uploaded once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from specdec.devices import upload
from specdec.topology import Topology


class Level(NamedTuple):
    """One depth of the tree, and how to find its children among the arrivals of its races.

    inner: the rows of this depth that have children. places: of these, counted within the depth. most: the
    most children that one of them has. slots: of each child, its place in the arrivals [inner, most], laid
    out flat.
    """

    inner: tuple[int, ...]
    places: Tensor  # int64 [inner]
    most: int
    slots: Tensor  # int64 [children]


class Tests(NamedTuple):
    """GSD's tests of all nodes at once: first of all first children, then of all second ones, and so on.

    The inner nodes are sorted by falling number of children, so that those with a child i are the first few.
    places, rows: of these nodes, the place among all inner nodes in level order, and the row of the topology.
    children: by child index, the rows of the children with it. by_row: where [root, first children, second
    children, ...] has each row. winners_by_row: where [inner nodes, leaves] has each row.
    """

    places: Tensor  # int64 [inner]
    rows: Tensor  # int64 [inner]
    children: tuple[Tensor, ...]  # int64 [nodes with that child] each
    by_row: Tensor  # int64 [1 + k]
    winners_by_row: Tensor  # int64 [1 + k]


class DeviceTree:
    """A topology and its index tensors on a device."""

    def __init__(self, topology: Topology, device: torch.device):
        self.topology, self.device = topology, device
        self.depths = self._sent(topology.depths)  # [1 + k]
        self.levels = tuple(self._level(depth) for depth in range(topology.depth))
        self.inner_rows = [row for level in self.levels for row in level.inner]
        self.inner = self._sent(self.inner_rows)  # [inner nodes]

    @cached_property
    def leaves(self) -> Tensor:
        """Rows without children, int64 [leaves]."""
        return self._sent(self._leaves())

    @cached_property
    def tests(self) -> Tests:
        """What GSD's tests need."""
        children = self.topology.children
        places = sorted(range(len(self.inner_rows)), key=lambda place: -len(children[self.inner_rows[place]]))
        rows = [self.inner_rows[place] for place in places]
        most = len(children[rows[0]]) if rows else 0
        tested = [
            [children[row][index] for row in rows if len(children[row]) > index] for index in range(most)
        ]
        return Tests(
            places=self._sent(places),
            rows=self._sent(rows),
            children=tuple(self._sent(some) for some in tested),
            by_row=self._sent(_inverse([0, *(row for some in tested for row in some)])),
            winners_by_row=self._sent(_inverse([*rows, *self._leaves()])),
        )

    def there(self, supported: Sequence[bool]) -> list[int]:
        """The rows that were drafted: q had support for them and for their ancestors."""
        there = [True]
        for row, parent in enumerate(self.topology.parents[1:], start=1):
            there.append(supported[row] and there[parent])
        return [row for row, it_is in enumerate(there) if it_is]

    def _level(self, depth: int) -> Level:
        rows, children = self.topology.levels[depth], self.topology.children
        inner = tuple(row for row in rows if children[row])
        most = max(len(children[row]) for row in inner)
        slots = [
            most * place + index for place, row in enumerate(inner) for index in range(len(children[row]))
        ]
        return Level(inner, self._sent(row - rows[0] for row in inner), most, self._sent(slots))

    def _leaves(self) -> list[int]:
        return [row for row, children in enumerate(self.topology.children) if not children]

    def _sent(self, numbers: Iterable[int]) -> Tensor:
        return upload([*numbers], self.device)


def _inverse(order: Sequence[int]) -> list[int]:
    """Where each number stands in a permutation."""
    places = [0] * len(order)
    for place, number in enumerate(order):
        places[number] = place
    return places
