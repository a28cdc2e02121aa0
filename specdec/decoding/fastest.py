"""Finds the fastest tree for known acceptance and known costs, and the best tree of each size."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from specdec.decoding.costs import RoundCost
from specdec.decoding.joint_trees import DraftNode, ExpectedRound, by_depth, queue, rounds, tree
from specdec.theory import node_acceptance
from specdec.topology import Topology
from specdec.trace import Candidate, Milliseconds

SIZES = (*range(9), 10, 12, 16, 20, 24, 32)
"""The numbers of drafted tokens that a tree to choose from may have."""
QUEUE = 64
"""All trees to choose from are parts of one tree with this many nodes. It is larger than the largest of them,
so that a shallow part can have many nodes on each level."""


class Choice(NamedTuple):
    """The tree with the most tokens per second, and the candidates among which it was chosen."""

    topology: Topology
    candidates: tuple[Candidate, ...]


def chosen(
    acceptance: np.ndarray,
    costs: RoundCost,
    at_once: int = 1,
    sizes: Collection[int] = SIZES,
    nodes: Sequence[DraftNode] | None = None,
) -> Choice:
    """The fastest tree for `at_once` texts with the same acceptance [indices], and the best of each size.

    sizes: the numbers of drafted tokens to choose from, which must include 0. nodes: the nodes from which
    trees are made, parents before their children; by default those of Algorithm 3's queue.
    """
    nodes = queue(acceptance, QUEUE) if nodes is None else nodes
    best: dict[int, tuple[ExpectedRound, Sequence[DraftNode]]] = {}
    for shallow in by_depth(nodes, max(sizes)):
        for size, round in enumerate(rounds(shallow, costs, at_once, at_once)):
            if size not in sizes:
                continue
            round = with_repeated(round, shallow[:size], acceptance, costs, at_once)
            if size not in best or round.rate > best[size][0].rate:
                best[size] = round, shallow[:size]
    fastest = max(best, key=lambda size: best[size][0].rate)
    candidates = tuple(
        Candidate(
            _tree(drafted).paths,
            round.tokens / at_once,
            Milliseconds(*(1000 * seconds for seconds in round[1:])),
            round.rate,
            chosen=size == fastest,
        )
        for size, (round, drafted) in sorted(best.items())
    )
    return Choice(_tree(best[fastest][1]), candidates)


def with_repeated(
    round: ExpectedRound, nodes: Sequence[DraftNode], acceptance: np.ndarray, costs: RoundCost, texts: int
) -> ExpectedRound:
    """The round with a longer target time, which includes the tokens that are read again after rejections.

    nodes: the nodes of the tree, which every text has.
    """
    if not costs.most_repeated or not nodes:
        return round
    repeated = repeated_tokens(acceptance, _tree(nodes), costs.most_repeated)
    return round._replace(target=costs.target.seconds(texts, texts * (1 + len(nodes) + repeated)))


def repeated_tokens(acceptance: np.ndarray, tree: Topology, most: float) -> float:
    """Average number of accepted tokens that the target reads again in each round, at most `most`.

    A round that rejects a token adds its new tokens to those that must be read again. A round that accepts
    all drafted tokens clears them. So the average is the mean number of tokens that a round adds, divided by
    the probability that a round accepts all its tokens.
    """
    probabilities = node_acceptance(acceptance, tree)
    full = probabilities[-1]
    return min((sum(probabilities) - full * len(probabilities)) / full, most) if full > 0 else most


def _tree(nodes: Sequence[DraftNode]) -> Topology:
    return tree(tuple(node.path for node in nodes))
