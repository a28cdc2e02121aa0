"""Drafting a tree whose shape depends on the draft's own predictions (`specdec.context`)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specdec.context import ContextTree
from specdec.context.features import WIDTH
from specdec.context.growth import Branch, child_counts, plan
from specdec.drafters.base import only_root
from specdec.drafters.model import DraftSession
from specdec.methods import Drafted
from specdec.models.requests import Requesting
from specdec.probs import log_probs
from specdec.race import PositionNoise
from specdec.topology import Topology


class ContextDrafter(DraftSession):
    """A `Drafter` that runs the draft model along a `ContextTree`."""

    def draft(
        self, text_ids: Sequence[int], topology: ContextTree, depth: int, noise: PositionNoise
    ) -> Requesting[Drafted]:
        """Drafts a tree of at most `topology.k` tokens; see `Drafter.draft`."""
        depth = self.room(len(text_ids), depth)
        if not depth:
            return only_root(text_ids)
        self.acceptance, self.k = topology.acceptance, topology.k
        root = Branch(text_ids[-1])
        logits = yield from self.score_root(text_ids, root)
        grow = self._grow_gsd if self.acceptance.method == "gsd" else self._grow_ersd
        branches = yield from grow(root, logits, min(depth, self.k), noise)
        return self._as_drafted(root, branches)

    def _grow_ersd(
        self, root: Branch, logits: Tensor, depth: int, noise: PositionNoise
    ) -> Requesting[list[Branch]]:
        """Repeats these steps until every planned node is drafted: draft the children of the scored nodes,
        plan a tree, and score the planned nodes whose children are planned but not drafted."""
        unscored = [root]
        while True:
            self._raced_ersd(unscored, logits, noise)
            branches, unscored = plan([root], self.k, depth, self.acceptance.average)
            if not unscored:
                return branches
            logits = yield from self._score(unscored)

    def _raced_ersd(self, nodes: list[Branch], logits: Tensor, noise: PositionNoise) -> None:
        log_q = self._log_q(nodes, logits)
        log_e = torch.stack([_log_e(noise, node.depth) for node in nodes])  # [n, vocabulary]
        times, tokens, supports = _first_arrivals(log_q, log_e)
        rates = self.acceptance.of_drafted_ersd(log_q, times, tokens[:, :WIDTH]).tolist()
        for node, row, support, rate in zip(nodes, tokens.tolist(), supports, rates, strict=True):
            node.drafted(row[:support], rate)

    def _grow_gsd(
        self, root: Branch, logits: Tensor, depth: int, noise: PositionNoise
    ) -> Requesting[list[Branch]]:
        """Grow the tree level by level. Child counts of a level are decided before its race is drawn."""
        level = [root]
        branches: list[Branch] = []
        for above in range(depth):
            log_q = self._log_q(level, logits)
            uniforms = [noise.test((0,) * above, index) for index in range(WIDTH)]
            tests = torch.tensor(uniforms, dtype=torch.float32)
            counts = self._counts(level, log_q, tests, self.k - len(branches), depth - above)
            _, tokens, _ = _first_arrivals(log_q, _log_e(noise, above).expand_as(log_q))
            rates = self.acceptance.of_drafted_gsd(log_q, tests, tokens[:, :WIDTH]).tolist()
            children = []
            for node, row, number, rate in zip(level, tokens.tolist(), counts, rates, strict=True):
                children += node.drafted(row[:number], rate)
            branches += children
            unscored = {*plan(children, self.k - len(branches), depth, self.acceptance.average)[1]}
            level = [node for node in children if node in unscored]
            if not level:
                break
            logits = yield from self._score(level)
        return branches

    def _counts(self, level: list[Branch], log_q: Tensor, tests: Tensor, k: int, depth: int) -> list[int]:
        return child_counts(
            [node.acceptance for node in level],
            self.acceptance.of_node(log_q).tolist(),
            self.acceptance.of_tested(log_q, tests).tolist(),
            log_q.isfinite().sum(-1).tolist(),
            k,
            depth,
            self.acceptance.average,
        )

    def _log_q(self, nodes: list[Branch], logits: Tensor) -> Tensor:
        """log q [n, vocabulary] of the nodes with these logits. Each node also stores its row of it."""
        log_q = log_probs(logits, self.sampling, self.vocab_size)
        for node, row in zip(nodes, log_q, strict=True):
            node.log_q = row
        return log_q

    def _score(self, nodes: list[Branch]) -> Requesting[Tensor]:
        return self.score(nodes, [node.token_id for node in nodes], [node.parent for node in nodes])

    def _as_drafted(self, root: Branch, branches: list[Branch]) -> Drafted:
        """A `Drafted` of the tree with the root and these nodes, in level order."""
        taken_ids, order, parents = {id(node) for node in branches}, [root], [-1]
        for row, node in enumerate(order):  # the list grows while it is read: breadth first
            children = [child for child in node.children or () if id(child) in taken_ids]
            order += children
            parents += [row] * len(children)
        topology = Topology.from_parents(parents, [node.child_index for node in order])
        self.rename({node: row for row, node in enumerate(order)})
        log_q = [node.log_q if topology.children[row] else None for row, node in enumerate(order)]
        return Drafted(topology, [node.token_id for node in order], log_q)


def _log_e(noise: PositionNoise, depth: int) -> Tensor:
    """Logarithms of the exponentials, [vocabulary], in the race that all nodes of this depth share."""
    return noise.race((0,) * depth).exponentials


def _first_arrivals(log_q: Tensor, log_e: Tensor) -> tuple[Tensor, Tensor, list[int]]:
    """The log times and the tokens of the first arrivals, both [n, up to WIDTH + 1], and for each row the
    number of tokens with q > 0 among the first WIDTH.

    log_q: [n, vocabulary]. log_e: logarithms of the exponentials, [n, vocabulary].
    """
    times = log_e.to(log_q.device) - log_q
    first = times.topk(min(WIDTH + 1, times.shape[-1]), -1, largest=False)
    return first.values, first.indices, first.values[:, :WIDTH].isfinite().sum(-1).tolist()
