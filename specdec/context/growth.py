"""Grows a draft tree level by level. Each level runs the paper's Algorithm 3 again, with more knowledge.

Each drafted node has an estimated probability of being accepted. A node that is not drafted yet gets the
average acceptance of its child index. As in Algorithm 3, a plan takes the k nodes that are most likely to be
accepted. Only the part of a plan that must be decided now is carried out.

GSD stays exact only if each race and each acceptance uniform is drawn after all decisions that affect its
use. Nodes of one depth share a race, and children with the same index share a uniform. So the child counts of
a level are fixed before its race is drawn, and whether nodes get a child i is decided without the uniforms of
index i and later. The uniforms of earlier indices may be used: if the first child is almost certainly
accepted, a second child is worth nothing. ERSD's text does not depend on the tree, so its tree may use all
noise, including the race.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from torch import Tensor

from specdec.context.features import WIDTH


@dataclass(eq=False, slots=True)
class Branch:
    """A node of a growing tree.

    acceptance: estimated probability that the node is accepted.
    log_q: the distribution of its children; None until the draft has scored the node.
    children: the child nodes in order of arrival; None until they are drafted.
    """

    token_id: int
    acceptance: float = 1.0
    parent: Branch | None = None
    child_index: int = -1
    depth: int = 0
    log_q: Tensor | None = None  # [vocabulary]
    children: list[Branch] | None = None

    def drafted(self, token_ids: Sequence[int], rates: Sequence[float]) -> list[Branch]:
        """Add these tokens [n] as children of the node, in order of arrival; return the children.

        rates: [n] or more, for each child the probability that it is accepted, given that the node is
        accepted. A later child gets at most the rate of an earlier one, because Algorithm 3 requires it.
        """
        self.children, most = [], 1.0
        for index, (token_id, rate) in enumerate(zip(token_ids, rates, strict=False)):
            most = min(most, rate)
            self.children.append(Branch(token_id, self.acceptance * most, self, index, self.depth + 1))
        return self.children


@dataclass(slots=True)
class _Queue:
    """The priority queue of the paper's Algorithm 3. The candidate with the highest acceptance comes first;
    among candidates with equal acceptance, the oldest. average, depth: as in `plan`."""

    average: Sequence[float]
    depth: int
    heap: list[Any] = field(default_factory=list)
    order: Iterator[int] = field(default_factory=count)

    def push(self, probability: float, *candidate: Any) -> None:
        heapq.heappush(self.heap, (-probability, next(self.order), *candidate))

    def popped(self, most: int) -> Iterator[tuple[float, Any, int, float, int]]:
        """Pop up to `most` candidates: (probability, owner, index, parent's probability, depth). Meanwhile
        the caller may push more. A drafted node is its own owner, with index -1. The owner of an undrafted
        child is its parent, or None if its parent is undrafted too."""
        for _ in range(most):
            if not self.heap:
                return
            negative, _, owner, index, parent, depth = heapq.heappop(self.heap)
            yield -negative, owner, index, parent, depth

    def push_unseen(self, owner: Any, index: int, parent: float, depth: int) -> None:
        """Add an undrafted child with this index. Its parent is accepted with probability `parent`. The child
        gets the average acceptance of its index, because nothing else is known about it."""
        if depth <= self.depth and index < len(self.average):
            self.push(parent * self.average[index], owner, index, parent, depth)


def plan(
    roots: Sequence[Branch], k: int, depth: int, average: Sequence[float]
) -> tuple[list[Branch], list[Branch]]:
    """Plan the k nodes below `roots` that are most likely to be accepted, no deeper than `depth`.

    Returns two lists: the planned nodes that are drafted already, and the drafted nodes with planned but
    undrafted children, which must be scored next. If the second list is empty, the first one is the tree.
    average: acceptance by index, for undrafted nodes.
    """
    queue, unscored = _Queue(average, depth), {}
    branches: list[Branch] = []  # at most k branches
    for root in roots:
        _push_children(queue, root)
    for probability, owner, index, parent, level in queue.popped(k):
        if isinstance(owner, Branch) and index < 0:
            branches.append(owner)
            _push_children(queue, owner)
            assert owner.parent is not None, "the root is never a candidate"
            siblings = owner.parent.children or ()
            if owner.child_index + 1 < len(siblings):
                sibling = siblings[owner.child_index + 1]
                queue.push(sibling.acceptance, sibling, -1, 0.0, level)
            continue
        if owner is not None:
            unscored[id(owner)] = owner
        queue.push_unseen(owner, index + 1, parent, level)
        queue.push_unseen(None, 0, probability, level + 1)
    return branches, list(unscored.values())


def _push_children(queue: _Queue, node: Branch) -> None:
    if node.depth >= queue.depth or node.children == []:
        return
    if node.children is None:
        queue.push_unseen(node, 0, node.acceptance, node.depth + 1)
    else:
        queue.push(node.children[0].acceptance, node.children[0], -1, 0.0, node.depth + 1)


def child_counts(
    acceptance: Sequence[float],
    untested: Sequence[Sequence[float]],
    tested: Sequence[Sequence[float]],
    most: Sequence[int],
    k: int,
    depth: int,
    average: Sequence[float],
) -> list[int]:
    """For GSD, the number of children of each node of a level, if k nodes remain for this and deeper levels.

    acceptance: estimated acceptance of each node. untested: hazards [n, WIDTH] of its children. tested:
    hazards given the uniforms that will test the children; column i is used only after all children i are
    decided. most: the largest number of children of each node. depth: the number of remaining levels.
    """
    counts, remaining = [0] * len(acceptance), list(acceptance)  # [n] each
    decided: list[float] = []  # the acceptance of all children that are decided so far, of all nodes
    for index in range(WIDTH):
        chosen = _chosen(index, counts, remaining, decided, untested, most, k, _Queue(average, depth))
        if not chosen:
            break
        for node in chosen:
            counts[node] += 1
            decided.append(remaining[node] * tested[node][index])
            remaining[node] *= 1 - tested[node][index]
        k -= len(chosen)
    return counts


def _chosen(
    index: int,
    counts: Sequence[int],
    unaccepted: Sequence[float],
    decided: Sequence[float],
    untested: Sequence[Sequence[float]],
    most: Sequence[int],
    k: int,
    queue: _Queue,
) -> list[int]:
    """The nodes of a level whose child number `index` is one of the k planned nodes.

    unaccepted: for each node, the probability that it is accepted and that none of its earlier children is.
    decided: the acceptance of each child that is already decided. Other arguments as in `child_counts`.
    """

    def push(node: int, child: int, remaining: float) -> None:
        if child < min(WIDTH, most[node]):
            queue.push(remaining * untested[node][child], node, child, remaining, 1)

    for probability in decided:
        queue.push_unseen(None, 0, probability, 2)
    for node, so_far in enumerate(counts):
        if so_far == index:
            push(node, index, unaccepted[node])
    chosen = []
    for probability, node, child, parent, level in queue.popped(k):
        if node is None:
            queue.push_unseen(None, child + 1, parent, level)
        else:
            if child == index:
                chosen.append(node)
            push(node, child + 1, parent * (1 - untested[node][child]))
        queue.push_unseen(None, 0, probability, level + 1)
    return chosen
