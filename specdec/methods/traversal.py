"""Traversal verification: any tree, leaves first, so that several positions are decided at once.

Weng et al., "Traversal Verification for Speculative Tree Decoding", 2025. On a sequence it is block
verification (Sun et al., "Block Verification Accelerates Speculative Decoding", 2024). Lossless, and not
drafter-invariant. It never accepts less in the mean than GSD does, which decides token by token; at
temperature 0 it accepts the same.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from specdec.methods.gsd import Left, after_rejection, emitted, without
from specdec.methods.verdict import Attempt, Drafted, Kind, OwnNoise, Verdict, drawn_from
from specdec.race import Noise
from specdec.topology import Topology

UNTRIED = Left()
"""Of a node none of whose children is deleted."""


@dataclass
class Node:
    """A node on the way to the first leaf of what remains of the tree.

    weight: of its path, the root's 1. p, q: of its token when the way came to it. tried: how many of its
    children are deleted. left: what these leave of its P and Q.
    """

    row: int
    weight: float = 1.0
    p: float = 1.0
    q: float = 1.0
    tried: int = 0
    left: Left = UNTRIED


def traversal_round(
    drafted: Drafted,
    log_p: Sequence[Tensor],
    log_e: Noise,  # noqa: ARG001
    uniforms: OwnNoise,
) -> Verdict:
    """Traversal verification of a round of the decoder, beside the paper: a `Verifier`."""
    topology, token_ids, log_q, _ = drafted

    def test(row: int) -> float:
        return uniforms.node_test(topology.path(row))

    def last(row: int) -> float:
        return uniforms.node_last(topology.path(row))

    return verify_traversal(topology, token_ids, log_p, log_q, test, last)


def verify_traversal(
    topology: Topology,
    token_ids: Sequence[int],
    log_p: Sequence[Tensor],
    log_q: Sequence[Tensor | None],
    uniform: Callable[[int], float],
    last_uniform: Callable[[int], float],
) -> Verdict:
    """Traversal verification, beside the paper, of a tree drafted without replacement.

    token_ids, log_p, log_q: as in `verify_gsd`. uniform(row): what that row is tested with.
    last_uniform(row): what the token after it is sampled with. All of this noise and that of the drafting
    must be the round's own, and each node must have been drafted from on a race of its own: many nodes of
    one depth may be looked at, and positions that are not reached.

    The weight of the root is 1, that of a child min(1, w p[x] / q[x]) by its parent's w, p and q. The first
    leaf of what remains, children in drafted order, is accepted with all its path when u < w; the last token
    is then a sample of its p. Else it is deleted, and at its parent, with S = Σ max(w p - q, 0),

        p becomes max(w p - q, 0) / S,    w becomes S / (S + 1 - w),    q loses x.
    """
    return leaves_first(Remaining(topology, token_ids, log_p, log_q), uniform, last_uniform)


def leaves_first(
    remaining: Remaining, uniform: Callable[[int], float], last_uniform: Callable[[int], float]
) -> Verdict:
    """The loop of `verify_traversal`."""
    attempts = []
    while (leaf := remaining.first_leaf()).row:  # the root is accepted without a test
        u = uniform(leaf.row)
        attempts.append(Attempt(leaf.row, u, leaf.p, leaf.q, u < leaf.weight, leaf.weight))
        if attempts[-1].accepted:
            break
        remaining.delete(leaf)
    token_id = emitted(leaf.left, remaining.log_p[leaf.row], last_uniform(leaf.row))
    kind: Kind = "residual" if remaining.topology.children[leaf.row] else "bonus"
    return Verdict(tuple(node.row for node in remaining.way[1:]), token_id, kind, tuple(attempts))


class Remaining:
    """What remains of a drafted tree: a way from the root, and all that lies to the right of it.

    The arguments are those of `verify_traversal`.
    """

    def __init__(
        self,
        topology: Topology,
        token_ids: Sequence[int],
        log_p: Sequence[Tensor],
        log_q: Sequence[Tensor | None],
    ):
        self.topology, self.token_ids, self.log_p, self.log_q = topology, token_ids, log_p, log_q
        self.way = [Node(0)]

    def first_leaf(self) -> Node:
        """The end of the way, after lengthening it as far as children remain."""
        # below a weight of 0 all weights are 0: nothing there needs to be looked at
        while (node := self.way[-1]).weight > 0 and node.tried < len(self.topology.children[node.row]):
            self.way.append(self._next_child(node))
        return node

    def delete(self, leaf: Node) -> None:
        """Delete the end of the way; its parent goes on with what that leaves of it."""
        assert self.way.pop() is leaf
        node = self.way[-1]
        node.tried += 1
        more = node.tried < len(self.topology.children[node.row])
        log_weight = math.log(max(node.weight, sys.float_info.min))
        left = after_rejection(node.left._replace(log_weight=log_weight), *self._laws(node), more)
        if left.weights is node.left.weights:  # S = 0, and p stays
            node.weight = float(node.row == 0)
        else:
            rest = node.weight / node.left.sums[-1] * left.sums[-1]
            node.weight = rest / (rest + 1 - node.weight)
        node.left = left

    def _next_child(self, node: Node) -> Node:
        children, laws = self.topology.children[node.row], self._laws(node)
        if node.tried:
            tokens = [self.token_ids[child] for child in children[: node.tried]]
            node.left = without(node.left, laws[1], tokens)
        child = children[node.tried]
        p, q = node.left.of(*laws, self.token_ids[child])
        return Node(child, min(node.weight * p / q, 1.0) if q > 0 else float(p > 0), p, q)

    def _laws(self, node: Node) -> tuple[Tensor, Tensor]:
        """log P and log Q after this node, [vocabulary]; the draft may be elsewhere."""
        log_p = self.log_p[node.row]
        return log_p, drawn_from(self.log_q, node.row, log_p.device)
