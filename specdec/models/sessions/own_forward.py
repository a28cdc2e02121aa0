"""Tree sessions on our own forward passes, which take the nodes of several sessions at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from specdec.models.attention import TextRows
from specdec.models.cache import Masks, StackedCache
from specdec.models.graphs import GraphedCache
from specdec.models.kernels.decoder import CompiledDecoder, RowTable, ancestors_of, prompt_rows, tree_rows
from specdec.models.lean import LeanDecoder
from specdec.models.sessions.cached import TreeSession

if TYPE_CHECKING:
    from specdec.models.base import PreparedModel

PROMPT_ROWS = 96
"""Tokens of a prompt in one compiled call, so few that intermediate results stay in the processor's cache."""


class LeanSession(TreeSession):
    """A tree session on `LeanDecoder`, for models without a window."""

    _cache: StackedCache

    def __init__(self, model: PreparedModel, ancestors_only: bool = True):
        assert isinstance(model.decoder, LeanDecoder), "a model without a lean forward"
        self._decoder = model.decoder
        super().__init__(model, ancestors_only=ancestors_only)

    @property
    def shares(self) -> bool:
        """Whether it answers faster in one forward with other sessions than in a forward of its own."""
        return not (isinstance(self._cache, GraphedCache) and self._cache.capturing)

    def _new_cache(self) -> StackedCache:
        lent = self._decoder.graphs and self._decoder.graphs.lend(self)
        return lent or StackedCache(self._decoder.kv_shape, self.model.dtype, self.model.device)

    def _append(self, token_ids: Tensor) -> None:
        first, end = self.length, self.length + len(token_ids)
        positions = torch.arange(first, end, device=token_ids.device)
        mask = None if first == 0 else self._causal_mask(first, end)
        rows = TextRows(len(token_ids), self._cache.reserved(first, end), slice(first, end), mask)
        self._decoder.hidden(token_ids, self._decoder.rotation(positions, end), [rows])

    def _causal_mask(self, first: int, end: int) -> Tensor:
        """Additive mask [1, 1, n, end] that hides all later tokens from each token."""
        dtype, device = self.model.dtype, self.model.device
        lowest = torch.finfo(dtype).min
        return torch.full((1, 1, end - first, end), lowest, dtype=dtype, device=device).triu_(first + 1)

    def pend(self, parents: Sequence[int]) -> PendedNodes:
        """Adds pending nodes. ValueError if the context is full."""
        return PendedNodes(self, self._new_masks(parents))

    def score(self, token_ids: Tensor, pended: Sequence[PendedNodes], scored: int) -> Tensor:
        """Logits [scored, vocabulary] of the first `scored` nodes, of one session or several."""
        if len(pended) == 1 and scored and isinstance(self._cache, GraphedCache):
            logits = self._cache.logits(token_ids, pended[0].masks, self.length)
            if logits is not None:
                return logits[:scored]
        texts = [each.rows() for each in pended]
        longest = max(rows.kv.shape[2] for rows in texts)  # a position is never beyond its place
        positions = torch.cat([each.masks.depths[0] + each.session.length for each in pended])
        rotation = self._decoder.rotation(positions, longest)
        hidden = self._decoder.hidden(token_ids, rotation, texts)  # [nodes, width]
        return self._decoder.logits(hidden[:scored]) if scored else hidden[:0]


class PendedNodes(NamedTuple):
    """New pending nodes of a session, and their masks."""

    session: LeanSession
    masks: Masks

    def rows(self) -> TextRows:
        """The nodes as rows of a forward."""
        masks, length = self.masks, self.session.length
        count, end = masks.depths.shape[1], length + masks.pending
        kv = self.session._cache.reserved(end - count, end)
        return TextRows(count, kv, slice(end - count, end), masks.at(length, None))


class CompiledSession(TreeSession):
    """A tree session on `CompiledDecoder`: a node has the same logits, to the bit, in every tree."""

    shares = True
    _cache: StackedCache

    def __init__(self, model: PreparedModel, ancestors_only: bool = True):
        assert isinstance(model.decoder, CompiledDecoder), "a model without a compiled forward"
        self._decoder = model.decoder
        super().__init__(model, ancestors_only=ancestors_only)

    def _new_cache(self) -> StackedCache:
        return StackedCache(self._decoder.kv_shape, torch.float32, self.model.device)

    def _append(self, token_ids: Tensor) -> None:
        end = self.length + len(token_ids)
        self._cache.reserved(self.length, end)
        for first in range(self.length, end, PROMPT_ROWS):
            piece = token_ids[first - self.length :][:PROMPT_ROWS]
            rows = prompt_rows(self._cache.buffer, first, len(piece))
            self._decoder.forward(piece, [rows], 0)

    def pend(self, parents: Sequence[int]) -> RowTable:
        """Adds pending nodes. Returns their table of rows; ValueError if the context is full."""
        first, pending = len(self._parents), self._parents + tuple(parents)
        ancestors = ancestors_of(pending, first, self._ancestors_only)
        self.model.check_room(self.length + ancestors.depth)
        self._parents = pending
        self._cache.reserved(self.length + first, self.length + len(pending))
        return tree_rows(self._cache.buffer, self.length, self.length + first, ancestors)

    def score(self, token_ids: Tensor, pended: Sequence[RowTable], scored: int) -> Tensor:
        """Logits [scored, vocabulary], float32, of the first `scored` nodes, of one session or several."""
        return self._decoder.forward(token_ids, pended, scored)
