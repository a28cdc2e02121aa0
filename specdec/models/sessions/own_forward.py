"""Sessions that score draft trees with our own forward passes (`lean`, `kernels`). One pass can score nodes
of several sessions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from specdec.models.attention import TextRows
from specdec.models.cache import PendingText, StackedCache
from specdec.models.kernels.decoder import CompiledDecoder, RowTable, ancestors_of, prompt_rows, tree_rows
from specdec.models.lean import LeanDecoder
from specdec.models.sessions.cached import TreeSession

if TYPE_CHECKING:
    from specdec.models.base import PreparedModel

PROMPT_ROWS = 96
"""The most prompt tokens of a compiled call, so that intermediate results fit the processor's cache."""


class LeanSession(TreeSession):
    """A tree session that runs a `LeanDecoder`, for models without a window."""

    _cache: StackedCache

    def __init__(self, model: PreparedModel, ancestors_only: bool = True):
        assert isinstance(model.decoder, LeanDecoder), "the model has no lean forward pass"
        self._decoder = model.decoder
        super().__init__(model, ancestors_only=ancestors_only)

    def _new_cache(self) -> StackedCache:
        return StackedCache(self._decoder.kv_shape, self.model.dtype, self.model.device)

    def _append(self, token_ids: Tensor) -> None:
        first, end = self.length, self.length + len(token_ids)
        positions = torch.arange(first, end, device=token_ids.device)
        mask = None if first == 0 else self._causal_mask(first, end)
        rows = TextRows(len(token_ids), self._cache.reserved(first, end), slice(first, end), mask)
        self._decoder.hidden(token_ids, self._decoder.rotation(positions, end), [rows])

    def _causal_mask(self, first: int, end: int) -> Tensor:
        """Additive mask [1, 1, n, end] that hides from each token all later tokens."""
        dtype, device = self.model.dtype, self.model.device
        lowest = torch.finfo(dtype).min
        return torch.full((1, 1, end - first, end), lowest, dtype=dtype, device=device).triu_(first + 1)

    def pend(self, parents: Sequence[int]) -> PendingText:
        """Add a pending node below each of these parents. ValueError if the context is full."""
        text = PendingText(super().pend(parents), self._cache, self.length)
        end = self.length + text.masks.pending
        self._cache.reserved(end - text.rows, end)
        return text

    def score(self, token_ids: Tensor, pended: Sequence[PendingText], scored: int) -> Tensor:
        """Logits [scored, vocabulary] of the first `scored` nodes; they may belong to several sessions."""
        if self._decoder.graphs is None or not scored:
            return self._launched(token_ids, pended, scored)
        first = [*accumulate(text.rows for text in pended)].index(scored) + 1
        logits = self._decoder.graphs.logits(token_ids[:scored], pended[:first])
        if logits is None:
            return self._launched(token_ids, pended, scored)
        if pended[first:]:
            self._launched(token_ids[scored:], pended[first:], 0)
        return logits

    def _launched(self, token_ids: Tensor, pended: Sequence[PendingText], scored: int) -> Tensor:
        """`score` without a CUDA graph: kernels are launched one by one."""
        texts = [_rows(text) for text in pended]
        longest = max(rows.kv.shape[2] for rows in texts)  # no position exceeds the place in the cache
        positions = torch.cat([text.masks.depths[0] + text.length for text in pended])
        rotation = self._decoder.rotation(positions, longest)
        hidden = self._decoder.hidden(token_ids, rotation, texts)  # [nodes, width]
        return self._decoder.logits(hidden[:scored]) if scored else hidden[:0]


def _rows(text: PendingText) -> TextRows:
    end = text.length + text.masks.pending
    places = slice(end - text.rows, end)
    return TextRows(text.rows, text.cache.buffer[:, :, :end], places, text.masks.at(text.length, None))


class CompiledSession(TreeSession):
    """A tree session that runs a `CompiledDecoder`. The bits of a node's logits do not depend on the tree."""

    _cache: StackedCache

    def __init__(self, model: PreparedModel, ancestors_only: bool = True):
        assert isinstance(model.decoder, CompiledDecoder), "the model has no compiled forward pass"
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
        """Add a pending node below each of these parents. Returns the input of the compiled forward pass: the
        nodes' places in the cache and their ancestors. ValueError if the context is full."""
        first, pending = len(self._parents), self._parents + tuple(parents)
        ancestors = ancestors_of(pending, first, self._ancestors_only)
        self.model.check_room(self.length + ancestors.depth)
        self._parents = pending
        self._cache.reserved(self.length + first, self.length + len(pending))
        return tree_rows(self._cache.buffer, self.length, self.length + first, ancestors)

    def score(self, token_ids: Tensor, pended: Sequence[RowTable], scored: int) -> Tensor:
        """Logits [scored, vocabulary], float32, of the first `scored` nodes, of one or several sessions."""
        return self._decoder.forward(token_ids, pended, scored)
