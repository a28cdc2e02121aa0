"""Traversal verification of any tree. Leaves are tested first, which decides on several positions at once.

Weng et al., "Traversal Verification for Speculative Tree Decoding", 2025. On a sequence it is block
verification (Sun et al., "Block Verification Accelerates Speculative Decoding", 2024). The rule is lossless,
but not drafter-invariant. On average it accepts at least as many tokens as GSD, which decides token by token.
At temperature 0 both accept the same tokens.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from specdec.methods.residual import Residual
from specdec.methods.verdict import Attempt, Drafted, Kind, Verdict
from specdec.race import Noise


@dataclass
class Node:
    """A node on the path to the first remaining leaf of the tree.

    weight: the weight of the path to this node; the root's is 1. p, q: the probabilities of the node's token
    when the path was extended to it. deleted: the number of its deleted children.
    """

    row: int
    weight: float = 1.0
    p: float = 1.0
    q: float = 1.0
    deleted: int = 0


def verify(drafted: Drafted, log_p: Sequence[Tensor], noise: Noise) -> Verdict:
    """Traversal verification of a tree drafted without replacement (not in the paper): a `Verifier`.

    Each node of each round must have its own noise, for drafting too (`RoundNoise`), because the rule may
    test several nodes of one depth, and positions that the round does not reach.

    The root has weight 1, and a child min(1, w p[x] / q[x]) with its parent's w, p and q. The first leaf of
    the remaining tree, with children in drafted order, is accepted with its whole path when u < w; the last
    token is then a sample of the leaf's p. Otherwise the leaf, with token x, is deleted, and at its parent,
    with S = Σ max(w p - q, 0),

        p becomes max(w p - q, 0) / S,    w becomes S / (S + 1 - w),    q loses x.
    """
    return leaves_first(Remaining(drafted, log_p), noise)


def leaves_first(remaining: Remaining, noise: Noise) -> Verdict:
    """The loop of `verify`: it tests the first leaf, and after each rejection the next first leaf, until a
    path is accepted."""
    topology, attempts = remaining.drafted.topology, list[Attempt]()
    while (leaf := remaining.first_leaf()).row:  # the root is accepted without a test
        *parent, child_index = topology.path(leaf.row)
        u = noise.test(tuple(parent), child_index)
        attempts.append(Attempt(leaf.row, u, leaf.p, leaf.q, u < leaf.weight, leaf.weight))
        if attempts[-1].accepted:
            break
        remaining.delete(leaf)
    token_id = remaining.residual(leaf).sample(noise.last(topology.path(leaf.row)))
    kind: Kind = "residual" if topology.children[leaf.row] else "bonus"
    return Verdict(tuple(node.row for node in remaining.path[1:]), token_id, kind, tuple(attempts))


class Remaining:
    """The part of a drafted tree that is not deleted yet: a path from the root to the first leaf, and all
    nodes to the right of it."""

    def __init__(self, drafted: Drafted, log_p: Sequence[Tensor]):
        self.drafted, self.log_p = drafted, log_p
        self.path = [Node(0)]
        self._residuals: dict[int, Residual] = {}

    def first_leaf(self) -> Node:
        """Extends the path to the first remaining leaf below its end, and returns this leaf."""
        # Below a node of weight 0 all weights are 0, so no test could succeed.
        while (node := self.path[-1]).weight > 0 and node.deleted < len(self._children(node)):
            self.path.append(self.next_child(node))
        return node

    def residual(self, node: Node) -> Residual:
        """P and Q at this node after the deletion of some of its children. They are created on first use."""
        row = node.row
        if row not in self._residuals:
            self._residuals[row] = Residual(self.log_p[row], self.drafted.log_q[row])
        return self._residuals[row]

    def delete(self, leaf: Node) -> None:
        """Deletes the leaf at the path's end and updates its parent's P, Q and weight."""
        self.path.pop()
        node = self.path[-1]
        node.deleted += 1
        more = node.deleted < len(self._children(node))
        weight = max(node.weight, sys.float_info.min)
        rest = self.residual(node).reject(self.drafted.token_ids[leaf.row], more, weight)
        node.weight = rest / (rest + 1 - node.weight) if rest else float(node.row == 0)

    def next_child(self, node: Node) -> Node:
        """The first child of the node that has not been deleted."""
        child = self._children(node)[node.deleted]
        p, q = self.residual(node).probabilities(self.drafted.token_ids[child])
        weight = min(node.weight * p / q, 1.0) if q > 0 else float(p > 0)
        return Node(child, weight, p, q)

    def _children(self, node: Node) -> Sequence[int]:
        return self.drafted.candidates(node.row)
