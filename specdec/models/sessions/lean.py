"""A run on the lean forward."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from specdec.models.cache import CHUNK, Masks
from specdec.models.lean import LeanCache
from specdec.models.sessions.cached import TreeSession
from specdec.models.together.attention import Rows

if TYPE_CHECKING:
    from specdec.models.base import Wrapped
    from specdec.models.lean import LeanDecoder


class LeanSession(TreeSession):
    """A tree session on the forward of `lean.LeanDecoder`, for models without a window."""

    _cache: LeanCache

    @property
    def _lean(self) -> LeanDecoder:
        assert self._model.lean is not None, "a model without a lean forward"
        return self._model.lean

    def _new_cache(self) -> LeanCache:
        return LeanCache(self._lean.kv_shape, self._model.dtype, self._model.device, CHUNK)

    def _append(self, token_ids: Tensor) -> None:
        lean, first, end = self._lean, self.length, self.length + len(token_ids)
        turns = lean.turned(torch.arange(first, end, device=token_ids.device), end - 1)
        mask = None if first == 0 else self._later(first, end)
        lean.hidden(token_ids, self._cache.seen(first, end), slice(first, end), turns, mask)

    def _later(self, first: int, end: int) -> Tensor:
        """Additive mask [1, 1, n, end] that hides from each token those after it."""
        dtype, device = self._model.dtype, self._model.device
        lowest = torch.finfo(dtype).min
        return torch.full((1, 1, end - first, end), lowest, dtype=dtype, device=device).triu_(first + 1)

    @property
    def model(self) -> Wrapped:
        """Whose lean forward takes these rows beside those of other sessions."""
        return self._model

    def pend(self, parents: Sequence[int]) -> tuple[Rows, Tensor]:
        """Add pending nodes that a forward of several texts is to score: their rows, and positions [n].

        Raises ValueError where the context is full.
        """
        masks = self._pend(parents)
        return self._rows(masks), masks.offsets[0] + self.length

    def score(self, token_ids: Tensor, pended: Sequence[tuple[Rows, Tensor]], scored: int) -> Tensor:
        """Logits [scored, vocabulary] of the first of these rows; they go to the caches of their texts.

        token_ids: int64 [rows], of all texts, those of one after those of the other. pended: what sessions of
        this model said to them.
        """
        last = max(rows.kv.shape[2] for rows, _ in pended)  # no position is beyond its place
        turns = self._lean.turned(torch.cat([positions for _, positions in pended]), last)
        hidden = self._lean.hidden_of(token_ids, turns, [rows for rows, _ in pended])  # [rows, width]
        return self._lean.logits(hidden[:scored]) if scored else hidden[:0]

    def _rows(self, masks: Masks) -> Rows:
        count, end = masks.offsets.shape[1], self.length + masks.pending
        kv = self._cache.seen(end - count, end)
        return Rows(count, kv, slice(end - count, end), masks.at(self.length, None))

    def _logits(self, token_ids: Tensor, masks: Masks) -> Tensor:
        lean, rows = self._lean, self._rows(masks)
        turns = lean.turned(masks.offsets[0] + self.length, self.length + masks.depth)
        return lean.logits(lean.hidden_of(token_ids, turns, [rows]))
