"""Trees for texts that share their forward passes. The trees of all texts together are called the forest.

Algorithm 3's queue orders the nodes of all texts by `key`: the probability that the node is accepted, from
its own text's acceptance by index. (Where acceptance increases with the index, the key is computed from the
mean of the siblings, `optimal.pooled`.) The first n nodes of the queue are the forest of n nodes with the
most expected tokens. Further forests take only nodes up to some depth. The forest with the most expected
tokens per second at measured costs is chosen. docs/trees.md says in which sense it is optimal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from specdec.decoding.costs import RoundCost
from specdec.drafters.stopping import Price
from specdec.optimal import pooled, pop_order
from specdec.theory import node_acceptance
from specdec.topology import Path, Topology

_DEEPEST = 16
"""The depth to which trees are extended for a draft model that decides where to stop."""


class DraftNode(NamedTuple):
    """A drafted token.

    acceptance: the probability that it is accepted. key: the probability by which the queue is ordered; it
    differs from acceptance only where siblings were averaged. deepens: whether it is its text's first node of
    this depth. text: the text's number.
    """

    path: Path
    acceptance: float
    key: float
    deepens: bool
    text: int = 0


class ExpectedRound(NamedTuple):
    """The expected tokens of a round of all texts, and its expected seconds: for drafting, for the target's
    forward pass and for all other work."""

    tokens: float
    draft: float
    target: float
    rest: float

    @property
    def seconds(self) -> float:
        """Seconds of the whole round."""
        return self.draft + self.target + self.rest

    @property
    def rate(self) -> float:
        """Tokens per second."""
        return self.tokens / self.seconds


def queue(acceptance: np.ndarray, k: int, text: int = 0) -> list[DraftNode]:
    """The first k nodes of one text's tree, in the order of Algorithm 3 of the paper. acceptance: by child
    index; the first value must be above 0. text: the text's number."""
    vector = np.trim_zeros(acceptance, "b")
    in_order = pooled(vector)
    parents, child_indices = pop_order(in_order, k)
    rates, keys = vector.tolist(), in_order.tolist()
    nodes, deepest = [DraftNode((), 1.0, 1.0, False)], 0
    for parent, child in zip(parents[1:], child_indices[1:], strict=True):
        above = nodes[parent]
        path = (*above.path, child)
        nodes.append(
            DraftNode(
                path, above.acceptance * rates[child], above.key * keys[child], len(path) > deepest, text
            )
        )
        deepest = max(deepest, len(path))
    return nodes[1:]


def rounds(
    nodes: Iterable[DraftNode], costs: RoundCost, texts: int, copies: int = 1
) -> Iterator[ExpectedRound]:
    """The expected rounds of the forests of the first 0, 1, 2, ... of these nodes.

    texts: the number of texts that share the forward passes. copies: the number of texts that have each node
    in their tree. Each level costs one forward pass of the draft over the parents of its nodes, in all texts.
    """
    over = costs.overhead
    tokens, rows, draft, rest = float(texts), texts, 0.0, texts * over.empty
    # for each depth: the number of nodes that get children, and of the texts that these nodes belong to
    parents, drafting = Counter[int](), Counter[int]()
    yield ExpectedRound(tokens, draft, costs.target.seconds(texts, rows), rest)
    for node in nodes:
        depth = len(node.path)
        tokens += copies * node.acceptance
        rows += copies
        rest += copies * (over.drafting if node.deepens and depth == 1 else over.node)
        if node.path[-1] == 0:
            shallower = costs.draft.seconds(drafting[depth], parents[depth])
            parents[depth] += copies
            drafting[depth] += copies * node.deepens
            draft += costs.draft.seconds(drafting[depth], parents[depth]) - shallower
            draft += copies * node.deepens * over.level
        yield ExpectedRound(tokens, draft, costs.target.seconds(texts, rows), rest)


def by_depth(nodes: Sequence[DraftNode], most: int) -> Iterator[list[DraftNode]]:
    """Yields, for each depth from 0, the first `most` nodes of the queue that are no deeper than this depth.
    It ends at the depth after which nothing would change."""
    deepest = max((len(node.path) for node in nodes[:most]), default=0)
    for depth in range(deepest + 1):
        yield [node for node in nodes if len(node.path) <= depth][:most]


def joint_trees(
    queues: Sequence[Sequence[DraftNode]], costs: RoundCost, most: int, texts: int
) -> list[Topology]:
    """The trees, one for each queue, that give the most expected tokens per second together.

    most: the largest number of nodes of all trees together. texts: the number of texts that share the forward
    passes. Texts without a queue draft nothing.
    """
    merged = sorted((node for each in queues for node in each), key=attrgetter("key"), reverse=True)
    best, nodes = 0.0, list[DraftNode]()
    for shallow in by_depth(merged, most):
        most_tokens = texts + sum(node.acceptance for node in shallow)
        for size, round in enumerate(rounds(shallow, costs, texts)):
            if most_tokens <= best * round.seconds:
                break  # further nodes take further time, so no larger forest can reach the best rate
            if round.rate > best:
                best, nodes = round.rate, shallow[:size]
    paths: list[list[Path]] = [[] for _ in queues]
    for node in nodes:
        paths[node.text].append(node.path)
    return [tree(tuple(each)) for each in paths]


@lru_cache(4096)
def tree(paths: tuple[Path, ...]) -> Topology:
    """The topology with these paths.

    Equal paths give the same object, so that values which a topology has computed are used again.
    """
    return Topology(paths)


def nodes_of(acceptance: np.ndarray, tree: Topology) -> list[DraftNode]:
    """The nodes of a tree in level order. acceptance: by child index."""
    probabilities = node_acceptance(acceptance, tree)[1:]
    pairs = zip(tree.paths, ((), *tree.paths), probabilities, strict=False)
    return [DraftNode(path, chance, chance, len(path) > len(previous)) for path, previous, chance in pairs]


def price_of_level(acceptance: np.ndarray, tree: Topology, costs: RoundCost, texts: int) -> Price:
    """The price of a further level of this tree, for a draft model that may stop: the number of tokens that
    decoding writes in the time of one level. Also the price of a node, and the first child's acceptance.

    acceptance: for each child index, the probability R that this child is accepted. texts: the number of
    texts that share the forward passes, all with this tree.
    """
    nodes = nodes_of(acceptance, tree)
    plain, *_, drafting = rounds(nodes, costs, texts, texts)
    over, rate = costs.overhead, drafting.rate
    row = (drafting.target - plain.target) / len(nodes) / texts
    forward = costs.draft.seconds(texts, texts) / texts
    return Price(rate * (forward + over.level), rate * (row + over.node), float(acceptance[0]))


def deepened(shape: Topology) -> Topology:
    """The tree with its path of first children extended to the depth `_DEEPEST`, for a draft model that
    decides where to stop."""
    paths = set(shape.paths)
    chain = next(depth for depth in range(len(paths) + 1) if (0,) * (depth + 1) not in paths)
    deeper = ((0,) * depth for depth in range(chain + 1, max(chain, _DEEPEST) + 1))
    return tree((*shape.paths, *deeper))
