"""Shapes of draft trees: simple, sequence, batch, SpecInfer's tree, and any tree from its paths.

A topology says how many children each node gets, never which tokens. Nodes are in level order (by depth, then
by path), so that each level is a contiguous slice and parents come before their children. *Rows* number the
root and all nodes: row 0 is the root, and row i + 1 is the node `paths[i]`. A target call scores the rows in
this order.

    Topology([(0,), (1,), (0, 0)])      row 0 ─┬─ row 1 (0,) ─── row 3 (0, 0)
                                               └─ row 2 (1,)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from re import fullmatch
from typing import Any

import torch
from torch import Tensor

from specdec.checks import integer, integers, whole

Path = tuple[int, ...]
"""The place of a drafted token: 0-based child indices from the root to it. The root's path is `()`."""


class Topology:
    """An ordered tree of draft positions, the root excluded.

    paths: tuples of 0-based child indices in any order. They must include every ancestor and every earlier
    sibling of each path. ValueError names a path that does not fit.

    A node is stored as two integers, parent row and child index, so that a deep tree takes O(k) memory. The
    paths take O(k · depth) memory, and are computed at their first use.
    """

    def __init__(self, paths: Iterable[Sequence[int]]):
        if not isinstance(paths, Iterable) or getattr(paths, "ndim", 1) == 0:
            raise ValueError(f"paths = {paths!r} is not a list of paths")
        ordered = sorted((_checked_path(path) for path in paths), key=lambda path: (len(path), path))
        rows: dict[Path, int] = {(): 0}
        parents, child_indices = [-1], [-1]
        for path in ordered:
            if path in rows:
                raise ValueError(f"path {path} is given twice; each node has one path")
            if path[:-1] not in rows:
                raise ValueError(f"path {path} has no parent {path[:-1]}; add it to the tree")
            if path[-1] > 0 and (sibling := (*path[:-1], path[-1] - 1)) not in rows:
                raise ValueError(f"path {path} has no earlier sibling {sibling}; children count from 0")
            parents.append(rows[path[:-1]])
            child_indices.append(path[-1])
            rows[path] = len(rows)
        self._set(parents, child_indices)

    @classmethod
    def from_parents(cls, parents: Sequence[int], child_indices: Sequence[int]) -> Topology:
        """A topology from the parent row and the child index of each row; both are -1 for the root.

        Rows must be in level order, and children of a node in the order of their indices. Both are checked,
        in O(k) time. ValueError names the row that does not fit.
        """
        parents, child_indices = integers("parents", parents), integers("child_indices", child_indices)
        if len(parents) != len(child_indices):
            raise ValueError(f"parents has {len(parents)} rows and child_indices {len(child_indices)}")
        if (parents[:1], child_indices[:1]) != ([-1], [-1]):
            raise ValueError("row 0 is the root: its parent and its child index must be -1")
        for row in range(1, len(parents)):
            parent, previous = parents[row], parents[row - 1]
            if not 0 <= parent < row:
                raise ValueError(
                    f"row {row} has the parent {parent}: the parent must be an earlier row, 0 to {row - 1}"
                )
            # in level order, parent rows never fall, and the children of a node are neighbours
            expected = child_indices[row - 1] + 1 if parent == previous else 0
            if parent < previous or child_indices[row] != expected:
                raise ValueError(
                    f"row {row} is child {child_indices[row]} of row {parent}; rows must be in level order "
                    "and the children of a node counted from 0"
                )
        topology = cls.__new__(cls)
        topology._set(parents, child_indices)
        return topology

    def _set(self, parents: list[int], child_indices: list[int]) -> None:
        self.parents = tuple(parents)
        self.child_indices = tuple(child_indices)
        depths = [0]
        for parent in self.parents[1:]:
            depths.append(depths[parent] + 1)
        self.depths = tuple(depths)

    @property
    def num_draft_tokens(self) -> int:
        """k: the number of nodes of the tree, without the root."""
        return len(self.parents) - 1

    @property
    def depth(self) -> int:
        """Number of tokens on the longest path; 0 for the empty tree."""
        return self.depths[-1]

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """The rows of each row's children, in order. They are neighbours, because rows are in level order."""
        # Computed at the first use, because a tuple for each row would make the construction of a large tree
        # several times slower.
        counts = [0] * len(self.parents)
        for parent in self.parents[1:]:
            counts[parent] += 1
        ends = list(accumulate(counts, initial=1))
        return tuple(tuple(range(first, end)) for first, end in pairwise(ends))

    @cached_property
    def paths(self) -> tuple[Path, ...]:
        """The nodes' paths in level order, without the root's."""
        paths: list[Path] = [()]
        for parent, child_index in zip(self.parents[1:], self.child_indices[1:], strict=True):
            paths.append((*paths[parent], child_index))
        return tuple(paths[1:])

    def path(self, row: int) -> Path:
        """The path of a row; () for the root."""
        return self.paths[row - 1] if row else ()

    @cached_property
    def levels(self) -> tuple[range, ...]:
        """The rows of each depth, from depth 0, which is the root alone."""
        starts = [
            row for row in range(len(self.depths)) if row == 0 or self.depths[row] != self.depths[row - 1]
        ]
        return tuple(range(a, b) for a, b in zip(starts, [*starts[1:], len(self.depths)], strict=True))

    @cached_property
    def inner_levels(self) -> tuple[tuple[int, ...], ...]:
        """For each depth, the rows that have children."""
        return tuple(tuple(row for row in level if self.children[row]) for level in self.levels)

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """For each depth, the largest number of children of a row."""
        return tuple(max(len(self.children[row]) for row in level) for level in self.levels)

    @cached_property
    def is_sequence(self) -> bool:
        """Whether no node has two children."""
        return self.depth == self.num_draft_tokens

    def ancestors(self, row: int) -> list[int]:
        """Rows from the root to `row`, both included."""
        rows = [row]
        while rows[-1] > 0:
            rows.append(self.parents[rows[-1]])
        return rows[::-1]

    def attention_mask(self) -> Tensor:
        """Bool [1 + k, 1 + k]: which rows each row attends to, namely its ancestors and itself."""
        mask = torch.eye(len(self.parents), dtype=torch.bool)
        for row in range(1, len(self.parents)):
            mask[row] |= mask[self.parents[row]]
        return mask

    def limited(self, depth: int) -> Topology:
        """The topology without the nodes deeper than `depth`."""
        if depth >= self.depth:
            return self
        return self.subset(row for row in range(1, len(self.parents)) if self.depths[row] <= depth)

    def subset(self, rows: Iterable[int]) -> Topology:
        """The topology of the root and these rows. A row's parent and earlier siblings must be among them."""
        old_rows = [0, *rows]
        new = {row: i for i, row in enumerate(old_rows)}
        parents = [-1, *(new[self.parents[row]] for row in old_rows[1:])]
        return Topology.from_parents(parents, [self.child_indices[row] for row in old_rows])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Topology) and self.parents == other.parents

    def __hash__(self) -> int:
        return hash(self.parents)

    def __repr__(self) -> str:
        if self.num_draft_tokens > 16:
            return f"Topology(num_draft_tokens={self.num_draft_tokens}, depth={self.depth})"
        return f"Topology({list(self.paths)})"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        """A drawing of the tree, for notebooks."""
        from specdec.notebook.shown import topology

        return topology(self.paths, repr(self))


def simple() -> Topology:
    """One drafted token (Algorithms 1 and 2 of the paper)."""
    return sequence(1)


def sequence(k: int) -> Topology:
    """k drafted tokens in a sequence: each is the child of the one before it."""
    k = whole("k", k, 1, MAX_DRAFT_TOKENS)
    return Topology.from_parents(range(-1, k), [-1] + [0] * k)


def batch(k: int) -> Topology:
    """k alternatives for one position."""
    k = whole("k", k, 1, MAX_DRAFT_TOKENS)
    return Topology.from_parents([-1] + [0] * k, range(-1, k))


def specinfer(k: int = 20) -> Topology:
    """SpecInfer's tree: three sequences that share their first two tokens.

    Each sequence gets a third of the other k - 2 tokens. If k - 2 is not a multiple of three, the first
    sequences get one more. For k <= 2 the tree is sequence(k).
    """
    k = whole("k", k, 1, MAX_DRAFT_TOKENS)
    paths = [(0,) * depth for depth in range(1, min(k, 2) + 1)]
    for branch in range(3):
        length = (max(k - 2, 0) + 2 - branch) // 3
        paths += [(0, 0, branch, *(0,) * depth) for depth in range(length)]
    return Topology(paths)


NAMED = {"simple": lambda k: simple(), "sequence": sequence, "batch": batch, "specinfer": specinfer}  # noqa: ARG005
"""Topologies by name, as functions of k."""


def named(name: str, k: int | None = None) -> Topology:
    """The topology with this name: `named("sequence", 4)`, `named("sequence(4)")` or `named("simple")`.

    A ValueError lists the names, or says which k does not fit.
    """
    kind, own_k = parsed(name) if isinstance(name, str) else ("", None)
    if kind == "simple" and own_k not in (None, 1):
        raise ValueError(f"topology = {name!r:.60}: simple is one token, k = 1; use sequence(k) or batch(k)")
    k = own_k if k is None else k
    if kind not in NAMED or (k is None and kind != "simple"):
        raise ValueError(
            f"topology = {name!r:.60} is not one of simple, sequence(k), batch(k) and specinfer(k)"
        )
    return NAMED[kind](k)


def parsed(name: str) -> tuple[str, int | None]:
    """The parts of a topology's name: "sequence(4)" gives ("sequence", 4), "auto" gives ("auto", None)."""
    match = fullmatch(r"(\w+)\((\d{1,7})\)", name.replace(" ", ""))
    return (match[1], int(match[2])) if match else (name, None)


def _checked_path(path: Sequence[int]) -> Path:
    if isinstance(path, (str, bytes)) or not isinstance(path, Sequence):
        raise ValueError(f"path {path!r} is not a tuple of child indices")
    if not path:
        raise ValueError("path () is the root, which every tree has: leave it out")
    indices = [i for i in map(integer, path) if i is not None and i >= 0]
    if len(indices) < len(path):
        raise ValueError(f"path {tuple(path)!r} does not consist of child indices 0, 1, 2, ...")
    return tuple(indices)


MAX_DRAFT_TOKENS = 1_000_000
"""The largest k for which a topology is built. A decoder has a much lower limit, its context."""
