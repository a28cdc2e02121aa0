"""Drafting: the draft model grows a tree of continuations level by level, for all methods alike."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from specdec.devices import upload
from specdec.methods import Drafted
from specdec.models import Model
from specdec.models.together.forwards import Asking, Forward
from specdec.probs import LazyLogProbs, Sampling, log_probs, log_weights
from specdec.race import FEW, NodeRaces, Noise, Race, arrivals
from specdec.topology import Topology


class Drafter:
    """The draft model's cache, and drafting level by level.

    The cache lags behind the text: an accepted leaf was never scored by the draft, and neither was the last
    token of a round. Each round starts by scoring these one or two tokens, the last of which is the root.
    """

    def __init__(self, model: Model, vocab_size: int, sampling: Sampling):
        self.model, self.vocab_size, self.sampling = model, vocab_size, sampling
        self.context_length = model.context_length
        self.session = model.session()
        self._pending: dict[int, int] = {}  # row of the tree -> number in the session
        self._lag = 0

    def draft(self, text_ids: Sequence[int], topology: Topology, log_e: Noise | NodeRaces) -> Asking[Drafted]:
        """Race each level's inner nodes, one forward asked for; a node's children are its first arrivals.

        log_e: the race of each depth, depth + 1 of them, or of each node.
        """
        if isinstance(log_e, Tensor):
            log_e = log_e.to(self.model.device)
        level = yield from self._root_logits(text_ids)  # [1, vocabulary or more]
        tokens, inner = {0: text_ids[-1]}, [0]
        logits: dict[int, Tensor] = {}  # by row, [vocabulary or more]
        known: dict[int, Tensor] = {}  # log q by row, [vocabulary]
        for depth in range(topology.depth):
            logits.update(zip(inner, level.unbind(), strict=True))
            races = self._races(topology, log_e, depth, inner)
            orders, log_q = self._race(level, races, topology.widths[depth])
            if log_q is not None:
                known.update(zip(inner, log_q, strict=True))
            for row, order in zip(inner, orders, strict=True):
                tokens.update(zip(topology.children[row], self._children(topology, row, order), strict=False))
            inner = [row for row in topology.inner_levels[depth + 1] if row in tokens]
            if not inner:
                break
            # [inner nodes of the depth, vocabulary or more]
            level = yield self._extend(topology, tokens, inner)
        return self._drafted(topology, tokens, logits, known)

    def _races(self, topology: Topology, log_e: Noise | NodeRaces, depth: int, rows: Sequence[int]) -> Race:
        """The race of these rows of one depth, or one for each of them."""
        if isinstance(log_e, NodeRaces):
            return log_e.at([topology.path(row) for row in rows], self.model.device)
        return log_e[depth]

    def _children(self, topology: Topology, row: int, order: list[int]) -> Sequence[int]:  # noqa: ARG002
        """The tokens of a row's children, the surplus of a wider one among them, given its arrivals."""
        return order

    def _race(self, logits: Tensor, log_e: Race, count: int) -> tuple[list[list[int]], Tensor | None]:
        """The first `count` arrivals under q of each row; q [n, vocabulary] where that took all of it."""
        if count <= FEW and isinstance(log_e, Tensor) and logits.device.type == "cpu":
            weights = log_weights(logits, self.sampling, self.vocab_size)  # [n, vocabulary]
            if weights is not None:
                orders = arrivals(weights, log_e, count)
                if all(len(order) == count for order in orders):
                    return orders, None
        # also to know a lack of support from broken logits
        log_q = log_probs(logits, self.sampling, self.vocab_size)  # [n, vocabulary]
        return arrivals(log_q, log_e, count), log_q

    def keep(self, rows: Sequence[int]) -> None:
        """Commit the lag and the accepted rows that were scored; an accepted leaf was not."""
        scored = [self._pending[row] for row in rows if row in self._pending]
        self.session.keep([*range(self._lag), *scored])
        self._pending, self._lag = {}, 0

    def _root_logits(self, text_ids: Sequence[int]) -> Asking[Tensor]:
        """Score what the cache lacks, and return the logits [1, vocabulary] of what follows the root."""
        lag = text_ids[self.session.length :]
        self._lag, self._pending = len(lag), {0: len(lag) - 1}
        logits = yield self._forward(lag, range(-1, len(lag) - 1))
        return logits[-1:]

    def _forward(self, token_ids: Sequence[int], parents: Sequence[int]) -> Forward:
        """Which gives the logits [n, vocabulary or more] after each of these new pending nodes."""
        return Forward(self.session, upload(token_ids, self.model.device), parents)

    def _extend(self, topology: Topology, tokens: dict[int, int], rows: list[int]) -> Forward:
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

    def _drafted(
        self,
        topology: Topology,
        tokens: dict[int, int],
        logits: dict[int, Tensor],
        known: dict[int, Tensor],
    ) -> Drafted:
        """Leave out the nodes that q had no support for."""
        rows = sorted(tokens)
        new = {row: i for i, row in enumerate(rows)}
        topology = self._keep_rows(topology, rows)
        known = {new[row]: log_q for row, log_q in known.items()}
        log_q = LazyLogProbs([logits.get(row) for row in rows], self.sampling, self.vocab_size, known)
        return Drafted(topology, [tokens[row] for row in rows], log_q)
