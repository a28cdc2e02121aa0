"""Drafting by the draft model, level by level along a given topology."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from torch import Tensor

from specdec.devices import upload
from specdec.drafters.base import only_root
from specdec.drafters.stopping import Stopping
from specdec.methods import Drafted
from specdec.models import Model, Session
from specdec.models.other_tokenizer import OtherTokenizerSession
from specdec.models.requests import Request, Requesting
from specdec.probs import LazyLogProbs, Sampling, log_probs, log_weights
from specdec.race import FEW, PositionNoise
from specdec.topology import Topology

_LAG = 4
"""The most tokens that the first forward pass of a round reads: the root, and the tokens before it that the
cache lacks. If more tokens are missing, all tokens before the root are processed separately first."""
_PIECE = 256
"""The most tokens of one request of this separate processing, because the table of ancestors of a forward
pass grows with the square of its number of tokens."""

Orders = list[list[int]]
"""For each of several rows, the tokens for its children, in order. There may be more or fewer tokens than
children."""


class DraftSession:
    """The draft model's cache, and the nodes of the current round's tree that the model has scored.

    The cache lags behind the text, because the draft never scores the leaves of its tree or the last token of
    a round. Each round starts by scoring the one or two missing tokens, the last of which is the new root.
    """

    def __init__(self, model: Model, vocab_size: int, sampling: Sampling):
        self.model, self.vocab_size, self.sampling = model, vocab_size, sampling
        self.session = model.session()
        self._numbers: dict[Hashable, int] = {}  # for each node, its number among the session's pending nodes
        self._lag = self._scored = 0

    def prompt_session(self, length: int) -> Session | None:
        """The session, if the draft's context has room to draft; see `Drafter.prompt_session`."""
        return self.session if self.room(length, 1) else None

    def room(self, length: int, depth: int) -> int:
        """The largest depth, at most `depth`, of a tree that fits into the draft's context after a text of
        this length. The last level needs no room, because the draft never scores it."""
        return max(min(depth, self.model.context_length - length + 1), 0)

    def score_root(self, text_ids: Sequence[int], root: Hashable = 0) -> Requesting[Tensor]:
        """Scores the tokens of the text that the cache lacks, the last of which is the root.

        Returns the logits [1, vocabulary or more] after the root.
        """
        lag = text_ids[self.session.length :]
        if len(lag) > _LAG:  # the draft has not drafted in the last rounds
            *before, root_id = lag
            for first in range(0, len(before), _PIECE):
                yield Request(self.session, before[first : first + _PIECE], None)
            lag = [root_id]
        self._lag = self._scored = len(lag)
        self._numbers = {root: len(lag) - 1}
        logits = yield from self._forward(lag, range(-1, len(lag) - 1))
        return logits[-1:]

    def score(
        self, nodes: Sequence[Hashable], token_ids: Sequence[int] | Tensor, parents: Sequence[Hashable]
    ) -> Requesting[Tensor]:
        """Logits [n, vocabulary or more] after these nodes. Their parents must have been scored before.

        token_ids: a list, or int64 [n] on the draft's device.
        """
        above = [self._numbers[parent] for parent in parents]
        self._numbers.update(zip(nodes, range(self._scored, self._scored + len(nodes)), strict=True))
        self._scored += len(nodes)
        return (yield from self._forward(token_ids, above))

    def rename(self, rows: Mapping[Any, int]) -> None:
        """From now on, scored nodes have these row numbers as names. Nodes not in `rows` are forgotten."""
        self._numbers = {rows[node]: n for node, n in self._numbers.items() if node in rows}

    def commit(self, rows: Sequence[int]) -> None:
        """Commits the tokens that the cache lacked before the round, and the accepted nodes to the cache.

        An accepted leaf is left out, because the draft never scored it. rows: those of the accepted nodes.
        """
        scored = [self._numbers[row] for row in rows if row in self._numbers]
        self.session.commit([*range(self._lag), *scored])
        self._numbers, self._lag = {}, 0

    def _forward(self, token_ids: Sequence[int] | Tensor, parents: Sequence[int]) -> Requesting[Tensor]:
        uploaded = token_ids if isinstance(token_ids, Tensor) else upload(token_ids, self.model.device)
        if isinstance(self.session, OtherTokenizerSession):
            return (yield from self.session.scoring(uploaded, parents))
        return (yield Request(self.session, uploaded, parents))


class ModelDrafter(DraftSession):
    """A `Drafter` that runs the draft model along a topology. Children are the first arrivals under q.

    stopping: decides after each level whether the next one is drafted.
    """

    def __init__(self, model: Model, vocab_size: int, sampling: Sampling, stopping: Stopping | None = None):
        super().__init__(model, vocab_size, sampling)
        self.stopping = stopping or Stopping()

    def draft(
        self, text_ids: Sequence[int], topology: Topology, depth: int, noise: PositionNoise
    ) -> Requesting[Drafted]:
        """Drafts a tree with one forward pass per level that has children; see `Drafter.draft`."""
        topology = self.fitting(text_ids, topology, depth)
        if not topology.num_draft_tokens:
            return only_root(text_ids)
        level = yield from self.score_root(text_ids)  # [1, vocabulary or more]
        tokens, inner = {0: text_ids[-1]}, [0]
        logits: dict[int, Tensor] = {}  # for each row, [vocabulary or more]
        raced: dict[int, Tensor] = {}  # log-weights of each row's race, [vocabulary]
        for deeper in range(1, topology.depth + 1):
            logits.update(zip(inner, level.unbind(), strict=True))
            orders, weights = self._children(topology, inner, level, noise)
            raced.update(zip(inner, weights.unbind(), strict=True))
            for row, order in zip(inner, orders, strict=True):
                tokens.update(zip(topology.children[row], order, strict=False))
            above, inner = inner, [row for row in topology.inner_levels[deeper] if row in tokens]
            if not inner:
                break
            if self.stopping.price:
                self.stopping.drawn(topology, self._confidence(above, level, orders))
                if not self.stopping.worth(topology, inner):
                    self.stopping.depth, topology = deeper, topology.limited(deeper)
                    break
            parents = [topology.parents[row] for row in inner]
            # [inner rows of this depth, vocabulary or more]
            level = yield from self.score(inner, [tokens[row] for row in inner], parents)
        return self.drafted(topology, tokens, logits, raced)

    def fitting(self, text_ids: Sequence[int], topology: Topology, depth: int) -> Topology:
        """The topology, cut to this depth, to the draft's context, and to the depth that a record gives."""
        topology = topology.limited(self.room(len(text_ids), depth))
        return topology if self.stopping.depth is None else topology.limited(self.stopping.depth)

    def _children(
        self, topology: Topology, rows: Sequence[int], logits: Tensor, noise: PositionNoise
    ) -> tuple[Orders, Tensor]:
        """For each row: its first arrivals under q, as many as any row of this depth has children, or all
        arrivals if q has fewer; and the log-weights of its race (`probs.race_weights`), [rows, vocabulary].

        rows: nodes of one depth. logits: those after each row, [rows, vocabulary or more].
        """
        races = noise.races([topology.path(row) for row in rows])
        count = topology.widths[topology.depths[rows[0]]]
        weights = log_weights(logits, self.sampling, self.vocab_size)  # [rows, vocabulary]
        if weights is None:
            weights = log_probs(logits, self.sampling, self.vocab_size)
        orders = races.arrivals(weights, count)
        # Broken logits always shorten orders of up to `FEW` arrivals, but not always longer ones. `log_probs`
        # raises a ValueError for broken logits. It raises none if q merely has too little support.
        if self.sampling.keeps_all and (count > FEW or any(len(order) < count for order in orders)):
            log_probs(logits, self.sampling, self.vocab_size)
        return orders, weights

    def _confidence(self, rows: Sequence[int], logits: Tensor, orders: Orders) -> dict[int, float]:
        """For each row, the draft's probability of its first child at temperature 1: a lower temperature
        would hide how sure the draft is. logits, orders: one entry for each row."""
        # logsumexp would take six times as long if some logits are -inf
        probabilities = logits.float().softmax(-1)
        first = probabilities[range(len(rows)), [order[0] for order in orders]]
        return dict(zip(rows, first.tolist(), strict=True))

    def commit(self, rows: Sequence[int]) -> None:
        """Commits the accepted rows. `stopping` learns from them at which level to stop drafting."""
        super().commit(rows)
        self.stopping.learn(rows)

    def drafted(
        self, topology: Topology, tokens: dict[int, int], logits: dict[int, Tensor], raced: dict[int, Tensor]
    ) -> Drafted:
        """The drafted tree. Rows without a token, whose parent's q has too few tokens, are left out.

        tokens, logits, raced: by row of `topology`.
        """
        rows = sorted(tokens)
        if len(rows) < len(topology.parents):
            topology = topology.subset(rows[1:])
            new = {row: i for i, row in enumerate(rows)}
            self.rename(new)
            self.stopping.rename(new)
            raced = {new[row]: weights for row, weights in raced.items() if row in new}
        return Drafted(topology, [tokens[row] for row in rows], self.log_q(rows, logits, raced))

    def log_q(
        self, rows: Sequence[int], logits: Mapping[int, Tensor], raced: Mapping[int, Tensor]
    ) -> LazyLogProbs:
        """log q for each of these rows. logits, raced: by row; leaves are not in them."""
        return LazyLogProbs([logits.get(row) for row in rows], self.sampling, self.vocab_size, raced)
