"""Drafting: the draft model grows a tree of continuations level by level, for GSD and ERSD alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from specdec.devices import upload
from specdec.models import Model
from specdec.probs import Sampling, log_probs
from specdec.race import Noise, arrivals
from specdec.topology import Topology


class Drafted(NamedTuple):
    """A drafted tree: the topology as far as q's support reached, its tokens and the q's drafted from.

    token_ids: [1 + k], the root's first. log_q: by row, [vocabulary]; None at leaves.
    """

    topology: Topology
    token_ids: list[int]
    log_q: list[Tensor | None]


class Drafter:
    """The draft model's cache, and drafting level by level.

    The cache lags behind the text: an accepted leaf was never scored by the draft, and neither was the last
    token of a round. Each round starts by scoring these one or two tokens, the last of which is the root.
    """

    def __init__(self, model: Model, vocab_size: int, sampling: Sampling):
        self.model, self.vocab_size, self.sampling = model, vocab_size, sampling
        self.session = model.session()
        self._pending: dict[int, int] = {}  # row of the tree -> number in the session
        self._lag = 0

    def draft(self, text_ids: Sequence[int], topology: Topology, log_e: Noise) -> Drafted:
        """Race each level's inner nodes in one forward; a node's children are its first arrivals.

        log_e: the race of each depth, depth + 1 of them.
        """
        if isinstance(log_e, Tensor):
            log_e = log_e.to(self.model.device)
        logits = self._root_logits(text_ids)
        tokens, log_q, inner = {0: text_ids[-1]}, {}, [0]
        for depth in range(topology.depth):
            level = log_probs(logits, self.sampling, self.vocab_size)
            most = max(len(topology.children[row]) for row in inner)
            orders = arrivals(level, log_e[depth], most)
            for row, order, row_log_q in zip(inner, orders, level.unbind(), strict=True):
                log_q[row] = row_log_q
                tokens.update(zip(topology.children[row], order, strict=False))
            inner = [row for row in topology.levels[depth + 1] if topology.children[row] and row in tokens]
            if not inner:
                break
            logits = self._extend(topology, tokens, inner)
        return self._drafted(topology, tokens, log_q)

    def keep(self, rows: Sequence[int]) -> None:
        """Commit the lag and the accepted rows that were scored; an accepted leaf was not."""
        scored = [self._pending[row] for row in rows if row in self._pending]
        self.session.keep([*range(self._lag), *scored])
        self._pending, self._lag = {}, 0

    def _root_logits(self, text_ids: Sequence[int]) -> Tensor:
        """Score what the cache lacks, and return the logits [1, vocabulary] of what follows the root."""
        lag = text_ids[self.session.length :]
        self._lag, self._pending = len(lag), {0: len(lag) - 1}
        return self._forward(lag, range(-1, len(lag) - 1))[-1:]

    def _forward(self, token_ids: Sequence[int], parents: Sequence[int]) -> Tensor:
        return self.session.forward(upload(token_ids, self.model.device), parents)

    def _extend(self, topology: Topology, tokens: dict[int, int], rows: list[int]) -> Tensor:
        parents = self._numbered(topology, rows)
        return self._forward([tokens[row] for row in rows], parents)

    def _numbered(self, topology: Topology, rows: Sequence[int]) -> list[int]:
        """Number these rows as the session's next pending nodes; returns the numbers of their parents."""
        parents = [self._pending[topology.parents[row]] for row in rows]
        first = self._lag + len(self._pending) - 1  # the root is counted in both
        self._pending.update(zip(rows, range(first, first + len(rows)), strict=True))
        return parents

    def _keep_rows(self, topology: Topology, rows: Sequence[int]) -> Topology:
        """The tree of these rows alone, the root's first; from now on rows are counted in it."""
        if len(rows) == len(topology.parents):
            return topology
        self._pending = {new: self._pending[row] for new, row in enumerate(rows) if row in self._pending}
        return topology.subset(rows[1:])

    def _drafted(self, topology: Topology, tokens: dict[int, int], log_q: dict[int, Tensor]) -> Drafted:
        """Leave out the nodes that q had no support for."""
        rows = sorted(tokens)
        topology = self._keep_rows(topology, rows)
        return Drafted(topology, [tokens[row] for row in rows], [log_q.get(row) for row in rows])
