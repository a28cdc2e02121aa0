"""Optimal draft trees: the k nodes that are most likely to be accepted (Algorithm 3 of the paper).

A node's acceptance is never larger than its parent's, so the k nodes with the highest acceptance form a tree.
Under independent acceptances ("0-th order") the acceptance of a path is the product of `acceptance[i]` over
its child indices. Taking the nodes greedily from a priority queue costs O(k log k).

The greedy choice is optimal only if no sibling is more likely to be accepted than an earlier one. A measured
vector may violate this: (.5, .02, .4) with k = 4 gives .9375 greedily and 1.17 at best. For such vectors the
dynamic program is used, which is exact for every vector and costs O(k² · len(acceptance)). If that is too
slow, each run of siblings whose acceptance increases is replaced by its mean, and the choice is greedy.
`chosen_algorithm` says which of these three algorithms a vector gets.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
from torch import Tensor

from specdec.checks import real, reals, whole
from specdec.topology import MAX_DRAFT_TOKENS, Path, Topology

Acceptance = Sequence[float] | np.ndarray | Tensor | Callable[[Path], float]
Algorithm = Literal["greedy", "dynamic program", "pooled"]

_DYNAMIC_PROGRAM_LIMIT = 10**9


def optimal_topology(acceptance: Acceptance, k: int) -> Topology:
    """The tree of k drafted tokens with the most expected accepted tokens: τ* of Equation 4.

    acceptance: R(i) by child index (0-th order), the probability that the child with index i is the accepted
    one; indices beyond the vector are never accepted. Alternatively, a callable path -> probability that the
    node with this path is accepted.

    For vectors, `chosen_algorithm` names the algorithm; only "pooled" is not exact. For callables it is
    Algorithm 3, which is exact if no node is more likely to be accepted than its parent or an earlier
    sibling. ValueError if a value is not a probability, or if k < 1.
    """
    k = whole("k", k, 1, MAX_DRAFT_TOKENS)
    if callable(acceptance):
        return _greedy_by_path(acceptance, k)
    vector = checked_acceptance(acceptance)
    algorithm = chosen_algorithm(vector, k)
    if algorithm == "dynamic program":
        return dynamic_program_topology(vector, k)
    return _in_level_order(*pop_order(vector if algorithm == "greedy" else pooled(vector), k))


def chosen_algorithm(acceptance: Sequence[float] | np.ndarray | Tensor, k: int) -> Algorithm:
    """The algorithm by which `optimal_topology` solves this vector for k tokens.

    "greedy": Algorithm 3; exact, because the vector does not increase anywhere.
    "dynamic program": exact for every vector; used up to k² · len(acceptance) = 10⁹ (a second or two).
    "pooled": Algorithm 3 after each run of increasing siblings was replaced by its mean; not exact.
    """
    vector = checked_acceptance(acceptance)
    if np.all(np.diff(vector) <= 0):
        return "greedy"
    return "dynamic program" if k * k * len(vector) <= _DYNAMIC_PROGRAM_LIMIT else "pooled"


def dynamic_program_topology(acceptance: Sequence[float] | np.ndarray | Tensor, k: int) -> Topology:
    """τ* of Equation 4 by the dynamic program over (nodes, next child index), as Sequoia does; any vector.

    O(k² · len(acceptance)) time and O(k · len(acceptance)) memory.
    """
    k = whole("k", k, 1, MAX_DRAFT_TOKENS)
    vector = checked_acceptance(acceptance)
    _, size = _tables(vector, k)
    parents, child_indices = [-1], [-1]
    level = [(0, k)]
    while level:
        deeper = []
        for row, nodes in level:
            for child_index in range(len(vector)):
                if not nodes:
                    break
                subtree = int(size[child_index, nodes])
                deeper.append((len(parents), subtree - 1))
                parents.append(row)
                child_indices.append(child_index)
                nodes -= subtree
        level = deeper
    assert len(parents) == k + 1, (len(parents), k)
    return Topology.from_parents(parents, child_indices)


def pop_order(acceptance: Sequence[float] | np.ndarray | Tensor, k: int) -> tuple[list[int], list[int]]:
    """Parents and child indices of the root and k nodes, in the order in which Algorithm 3 takes the nodes.

    Each prefix of the order is the tree of `optimal_topology`. ValueError if the vector increases somewhere,
    because the best trees of such a vector need not contain each other.

    Nodes are taken in order of rising cost = -log acceptance. So the children with index i of the taken nodes
    have rising costs too, and form a sorted queue for each i. The heap holds only the heads of these queues:
    O(k log d) time for d child indices. Among equal costs the smaller child index comes first, so that
    siblings are in order.
    """
    k = whole("k", k, 1, MAX_DRAFT_TOKENS)
    vector = checked_acceptance(acceptance)
    if np.any(np.diff(vector) > 0):
        raise ValueError(f"acceptance = {vector.tolist()} increases: its best trees have no common order")
    cost = (-np.log(vector)).tolist()
    parents, child_indices, costs = [-1], [-1], [0.0]
    heads = [(cost[0], 0)]
    # for each queue i: the row of the parent whose child with index i is the head of the queue
    waiting = [0] * len(cost)
    for _ in range(k):
        node_cost, i = heads[0]
        parent = waiting[i]
        waiting[i] = parent + 1
        parents.append(parent)
        child_indices.append(i)
        costs.append(node_cost)
        heapq.heapreplace(heads, (costs[parent + 1] + cost[i], i))
        if parent == 0 and i + 1 < len(cost):
            heapq.heappush(heads, (cost[i + 1], i + 1))
    return parents, child_indices


def most_expected_tokens(acceptance: Sequence[float] | np.ndarray | Tensor, k: int) -> np.ndarray:
    """Expected tokens per round of the optimal tree (Equation 4) for 0, 1, ..., k drafted tokens, [k + 1].

    acceptance: by child index; it may also increase. The dynamic program takes O(k² · len(acceptance))
    time.
    """
    k = whole("k", k, 1, MAX_DRAFT_TOKENS)
    best, _ = _tables(checked_acceptance(acceptance), k)
    return 1 + best[0]


def checked_acceptance(acceptance: Sequence[float] | np.ndarray | Tensor) -> np.ndarray:
    """R of Equation 3 by child index, float64 [n], without trailing zeros; ValueError if it is invalid."""
    vector = reals(acceptance)
    if vector is None:
        raise ValueError(f"acceptance = {acceptance!r:.60} is not a list of probabilities")
    if vector.ndim != 1 or not len(vector):
        raise ValueError(f"acceptance has shape {vector.shape}; a vector by child index is needed")
    if not np.all((vector >= 0) & (vector <= 1)) or vector.sum() > 1 + 1e-6:
        raise ValueError(f"acceptance = {vector.tolist()} must be in [0, 1] and sum to at most 1")
    if not vector.any():
        raise ValueError(f"acceptance = {vector.tolist()}: no child is ever accepted, so no tree helps")
    return np.trim_zeros(vector, "b")


def pooled(acceptance: np.ndarray) -> np.ndarray:
    """The nearest vector [n] that does not increase: increasing runs are replaced by their means.

    The method is known as pool adjacent violators.
    """
    runs: list[tuple[float, int]] = []  # sum and length
    for rate in acceptance.tolist():
        total, length = rate, 1
        while runs and runs[-1][0] * length < total * runs[-1][1]:
            total, length = total + runs[-1][0], length + runs[-1][1]
            runs.pop()
        runs.append((total, length))
    # a mean that is rounded up must not exceed the mean before it
    means = [total / length for total, length in runs for _ in range(length)]
    return np.minimum.accumulate(means)


def _greedy_by_path(acceptance: Callable[[Path], float], k: int) -> Topology:
    parents, child_indices = [-1], [-1]
    queue: list[tuple[float, Path, int]] = [(-_checked_probability(acceptance, (0,)), (0,), 0)]
    while len(parents) <= k:
        _, path, parent = heapq.heappop(queue)
        row = len(parents)
        parents.append(parent)
        child_indices.append(path[-1])
        child, sibling = (*path, 0), (*path[:-1], path[-1] + 1)
        heapq.heappush(queue, (-_checked_probability(acceptance, child), child, row))
        heapq.heappush(queue, (-_checked_probability(acceptance, sibling), sibling, parent))
    return _in_level_order(parents, child_indices)


def _checked_probability(acceptance: Callable[[Path], float], path: Path) -> float:
    value = acceptance(path)
    probability = real(value)
    if probability is None or not 0 <= probability <= 1:
        raise ValueError(f"acceptance{path} = {value!r} is not a probability")
    return probability


def _in_level_order(parents: list[int], child_indices: list[int]) -> Topology:
    """The topology of these rows, put into level order. In the input, a row must come after its parent and
    its earlier siblings."""
    parent, child = np.array(parents), np.array(child_indices)
    # the children of all rows in one flat list, parent by parent; a list for each row would be slow
    starts = np.concatenate([[0], np.bincount(parent[1:], minlength=len(parent)).cumsum()])
    flat = np.empty(len(parent) - 1, dtype=np.int64)
    flat[starts[parent[1:]] + child[1:]] = np.arange(1, len(parent))
    children, start = flat.tolist(), starts.tolist()
    order = [0]
    for row in order:  # the list grows while it is read: breadth first
        order += children[start[row] : start[row + 1]]
    new = np.empty(len(order) + 1, dtype=np.int64)
    new[order], new[-1] = np.arange(len(order)), -1
    return Topology.from_parents(new[parent[order]].tolist(), child[order].tolist())


def _tables(acceptance: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The tables of the dynamic program, [indices + 1, k + 1]: best values, and sizes of child i's subtree.

    F(i, n) is the best value of n nodes in the subtrees of children i, i + 1, ... of a node. With s nodes in
    child i's subtree, F(i, n) = max over s of R_i (1 + F(0, s - 1)) + F(i + 1, n - s). A later child needs
    all earlier ones, so s >= 1 while nodes are left.
    """
    indices = len(acceptance)
    best = np.full((indices + 1, k + 1), -math.inf)
    best[:, 0] = 0
    size = np.zeros((indices, k + 1), dtype=np.int64)
    own = np.empty((indices, k))  # R_i (1 + F(0, s - 1)), by s - 1
    for nodes in range(1, k + 1):
        own[:, nodes - 1] = acceptance * (1 + best[0, nodes - 1])
        values = own[:, :nodes] + best[1:, nodes - 1 :: -1]
        size[:, nodes] = values.argmax(1) + 1
        best[:-1, nodes] = values.max(1)
    return best, size
