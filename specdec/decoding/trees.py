"""The trees of one run: past trees, the present tree, and trees that a record prescribes.

`run` makes the `Trees` of a run, and `engine` updates them in each round.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from specdec.context import Tree
from specdec.topology import Topology
from specdec.trace import Planted


class RoundTree(NamedTuple):
    """The tree of a round, and the depth at which the draft model stopped; None if it did not stop.

    Repeating a text needs both: the depth of the whole tree, before the stop, decides whether the draft model
    or a copied path drafts (`drafters.copies`).
    """

    topology: Topology
    depth: int | None = None

    @property
    def drafted(self) -> Topology:
        """The tree down to the depth at which the draft model stopped."""
        return self.topology if self.depth is None else self.topology.limited(self.depth)


class Trees:
    """The trees of one run.

    first: the tree of the first round. present: the tree of the next round. later: the trees that a record
    prescribes, by the number of the first round that uses them; None if the tree never changes; empty if the
    caller may set another `present` between rounds. so_far: the trees used until now, by the same number.
    """

    def __init__(self, first: Tree, later: Mapping[int, RoundTree] | None = None):
        self.first = self.present = first
        self.later = later
        self.so_far: dict[int, RoundTree] = {}

    @property
    def all_empty(self) -> bool:
        """Whether the tree of every round is empty."""
        return not self.first.num_draft_tokens and self.later is None

    @property
    def latest(self) -> Tree:
        """The tree of the latest round; before any round, the first tree."""
        return next(reversed(self.so_far.values())).drafted if self.so_far else self.first

    @property
    def changes(self) -> tuple[Planted, ...]:
        """All trees so far if they changed between rounds or the draft model stopped; otherwise none."""
        trees = [Planted(number, tree.paths, depth) for number, (tree, depth) in self.so_far.items()]
        return tuple(trees) if len(trees) > 1 or any(tree.depth is not None for tree in trees) else ()

    def add(self, number: int, depth: int | None) -> None:
        """Records the present tree as the tree of round `number`, unless the previous round had the same
        tree. depth: the depth at which the draft model stopped; None if it did not."""
        if isinstance(self.present, Topology):
            tree = RoundTree(self.present, depth)
            if tree != next(reversed(self.so_far.values()), None):
                self.so_far[number] = tree
