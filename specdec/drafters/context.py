"""Drafting a tree whose shape follows from what the draft shows (`specdec.context`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from specdec.context import ContextTree
from specdec.context.features import WIDTH
from specdec.context.growth import Branch, child_counts, plan, worth_scoring
from specdec.drafters.model import Drafter
from specdec.methods import Drafted
from specdec.models import Model
from specdec.models.together.forwards import Asking, Forward
from specdec.probs import Sampling, log_probs
from specdec.topology import Topology

ByDepth = Callable[[int], Tensor]


class ContextDrafter(Drafter):
    """The draft model's cache, and drafting of a `ContextTree`."""

    def __init__(self, model: Model, vocab_size: int, sampling: Sampling, tree: ContextTree):
        super().__init__(model, vocab_size, sampling)
        self.acceptance, self.k = tree.acceptance, tree.k
        self._scored = 0

    def grow(self, text_ids: Sequence[int], depth: int, race: ByDepth, uniforms: ByDepth) -> Asking[Drafted]:
        """A tree of at most k nodes and this depth.

        race(d): log e [vocabulary] of the nodes at depth d, whose children it draws. uniforms(d): [WIDTH],
        what GSD will test these children with; not asked for under ERSD.
        """
        logits = yield from self._root_logits(text_ids)
        self._scored = self._lag
        root = Branch(text_ids[-1], number=self._lag - 1)
        if self.acceptance.method == "gsd":
            taken = yield from self._grow_gsd(root, logits, depth, race, uniforms)
        else:
            taken = yield from self._grow_ersd(root, logits, depth, race)
        return self._as_drafted(root, taken)

    def _grow_ersd(self, root: Branch, logits: Tensor, depth: int, race: ByDepth) -> Asking[list[Branch]]:
        """Plan, score and race what the plan goes through, and plan again until nothing in it is unseen."""
        unscored = [root]
        while True:
            self._raced_ersd(unscored, logits, race)
            taken, unscored = plan(root, self.k, depth, self.acceptance.average)
            if not unscored:
                return taken
            logits = yield self._score(unscored)

    def _raced_ersd(self, nodes: list[Branch], logits: Tensor, race: ByDepth) -> None:
        log_q = self._log_q(nodes, logits)
        times, tokens, supports = _first_arrivals(log_q, torch.stack([race(node.depth) for node in nodes]))
        rates = self.acceptance.of_drafted_ersd(log_q, times, tokens[:, :WIDTH]).tolist()
        for node, row, support, rate in zip(nodes, tokens.tolist(), supports, rates, strict=True):
            node.drafted(row[:support], rate)

    def _grow_gsd(
        self, root: Branch, logits: Tensor, depth: int, race: ByDepth, uniforms: ByDepth
    ) -> Asking[list[Branch]]:
        """Level by level: decide the child counts, then look at the race and the uniforms."""
        level = [root]
        taken: list[Branch] = []
        for above in range(depth):
            log_q, tests = self._log_q(level, logits), uniforms(above)
            counts = self._counts(level, log_q, tests, self.k - len(taken), depth - above)
            _, tokens, _ = _first_arrivals(log_q, race(above).expand_as(log_q))
            rates = self.acceptance.of_drafted_gsd(log_q, tests, tokens[:, :WIDTH]).tolist()
            children = []
            for node, row, number, rate in zip(level, tokens.tolist(), counts, rates, strict=True):
                children += node.drafted(row[:number], rate)
            taken += children
            room = self.k - len(taken)
            level = worth_scoring(children, room, depth - above - 1, self.acceptance.average)
            if not level:
                break
            logits = yield self._score(level)
        return taken

    def _counts(self, level: list[Branch], log_q: Tensor, tests: Tensor, k: int, depth: int) -> list[int]:
        return child_counts(
            [node.reach for node in level],
            self.acceptance.of_node(log_q).tolist(),
            self.acceptance.of_tested(log_q, tests).tolist(),
            log_q.isfinite().sum(-1).tolist(),
            k,
            depth,
            self.acceptance.average,
        )

    def _log_q(self, nodes: list[Branch], logits: Tensor) -> Tensor:
        """log q [n, vocabulary] of nodes that the draft has scored; each keeps its row."""
        log_q = log_probs(logits, self.sampling, self.vocab_size)
        for node, row in zip(nodes, log_q, strict=True):
            node.log_q = row
        return log_q

    def _score(self, nodes: list[Branch]) -> Forward:
        for number, node in enumerate(nodes, start=self._scored):
            node.number = number
        self._scored += len(nodes)
        parents = [-1 if node.parent is None else node.parent.number for node in nodes]
        return self._forward([node.token_id for node in nodes], parents)

    def _as_drafted(self, root: Branch, taken: list[Branch]) -> Drafted:
        """The taken nodes in level order; their session numbers for `keep`."""
        kept, order, parents = {id(node) for node in taken}, [root], [-1]
        for row, node in enumerate(order):  # grows while it is read: breadth first
            children = [child for child in node.children or () if id(child) in kept]
            order += children
            parents += [row] * len(children)
        topology = Topology.from_parents(parents, [node.child_index for node in order])
        self._pending = {row: node.number for row, node in enumerate(order) if node.number >= 0}
        log_q = [node.log_q if topology.children[row] else None for row, node in enumerate(order)]
        return Drafted(topology, [node.token_id for node in order], log_q)


def _first_arrivals(log_q: Tensor, log_e: Tensor) -> tuple[Tensor, Tensor, list[int]]:
    """log times and tokens [n, WIDTH + 1 or the vocabulary] of races [n, vocabulary]; how many have q > 0."""
    times = log_e.to(log_q.device) - log_q
    first = times.topk(min(WIDTH + 1, times.shape[-1]), -1, largest=False)
    return first.values, first.indices, first.values[:, :WIDTH].isfinite().sum(-1).tolist()
