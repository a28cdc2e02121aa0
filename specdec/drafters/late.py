"""Drafting by the draft model on a GPU. The host launches all levels before it reads their tokens.

host  launch level 1, launch level 2, launch level 3, ..., read all tokens
GPU          level 1 |        level 2 |        level 3
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from specdec.devices import upload
from specdec.drafters.base import only_root
from specdec.drafters.model import ModelDrafter
from specdec.methods import Drafted
from specdec.methods.late import LateOrders, LateTokens
from specdec.models.requests import Requesting
from specdec.probs import broken_logits, log_probs
from specdec.race import PositionNoise, first_of
from specdec.topology import Topology


class LateDrafter(ModelDrafter):
    """A `ModelDrafter` that reads all tokens of its tree in one transfer. But if `stopping` has a price for a
    level, it drafts like `ModelDrafter`, because each decision to go on needs the level's tokens."""

    def draft(
        self, text_ids: Sequence[int], topology: Topology, depth: int, noise: PositionNoise
    ) -> Requesting[Drafted]:
        """Drafts a tree with one forward pass per level that has children; see `Drafter.draft`. The tokens of
        a sequence are `LateTokens`."""
        if self.stopping.price:
            return (yield from super().draft(text_ids, topology, depth, noise))
        topology = self.fitting(text_ids, topology, depth)
        if not topology.num_draft_tokens:
            return only_root(text_ids)
        level = yield from self.score_root(text_ids)  # [1, vocabulary or more]
        logits: dict[int, Tensor] = {}  # for each row, [vocabulary or more]
        raced: dict[int, Tensor] = {}  # for each row, log q [vocabulary]
        arrived: list[Tensor] = []  # for each level, [rows with children, 2, children]
        for rows, deeper in zip(topology.inner_levels[:-1], topology.inner_levels[1:], strict=True):
            log_q = log_probs(level, self.sampling, self.vocab_size, check=False)
            logits.update(zip(rows, level.unbind(), strict=True))
            raced.update(zip(rows, log_q.unbind(), strict=True))
            races = noise.races([topology.path(row) for row in rows])
            count = topology.widths[topology.depths[rows[0]]]
            arrived.append(first_of(races.exponentials.to(log_q.device) - log_q, count))
            if deeper:
                token_ids = _tokens(topology, rows, deeper, arrived[-1])
                level = yield from self.score(deeper, token_ids, [topology.parents[row] for row in deeper])
        if topology.is_sequence:
            tokens = LateTokens(text_ids[-1:], arrived)
            return Drafted(topology, tokens, self.log_q(range(len(tokens)), logits, raced))
        orders = [order for part in LateOrders(arrived).read() for order in part]
        return self.drafted(topology, _by_row(topology, text_ids[-1], orders), logits, raced)


def _tokens(topology: Topology, above: Sequence[int], rows: Sequence[int], first: Tensor) -> Tensor:
    """The token ids of these rows, int64 [rows], without a transfer to the host.

    first: `first_of` for the rows above, [above, 2, children]. A child index beyond the vocabulary has no
    token; its row takes the last one, and is left out later.
    """
    count = first.shape[2]
    place = {row: number * count for number, row in enumerate(above)}
    places = [place[topology.parents[row]] + min(topology.child_indices[row], count - 1) for row in rows]
    token_ids = first[:, 1].reshape(-1).long()
    return token_ids if len(token_ids) == 1 else token_ids[upload(places, first.device)]


def _by_row(topology: Topology, root_id: int, orders: Sequence[list[int]]) -> dict[int, int]:
    """The token of each row whose ancestors have tokens. orders: the arrivals of each row with children.

    ValueError if logits are broken.
    """
    tokens = {0: root_id}
    inner = [row for level in topology.inner_levels for row in level]
    for row, order in zip(inner, orders, strict=True):
        if row in tokens and not order:
            raise broken_logits()
        if row in tokens:
            tokens.update(zip(topology.children[row], order, strict=False))
    return tokens
