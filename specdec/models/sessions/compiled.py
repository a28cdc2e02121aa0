"""A run on the compiled forward."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from specdec.models.cache import CHUNK
from specdec.models.kernels.decoder import CompiledDecoder, Rows, lines_of, rows_of, text_of
from specdec.models.lean import LeanCache
from specdec.models.sessions.cached import CachedSession, Layout, inferring

if TYPE_CHECKING:
    from specdec.models.base import Wrapped

PREFILL_ROWS = 96
"""Tokens of a prompt in one call: their numbers between two phases stay in the processor's cache."""


class CompiledSession(CachedSession):
    """A tree session on `CompiledDecoder`: each node's logits are the same, to the bit, in every tree.

    lines=False lets every node see all nodes before it: the control of the self-check.
    """

    _cache: LeanCache

    def __init__(self, model: Wrapped, layout: Layout, lines: bool = True):
        super().__init__(model, layout)
        self._lines = lines

    @property
    def _compiled(self) -> CompiledDecoder:
        assert self._model.compiled is not None, "a model without a compiled forward"
        return self._model.compiled

    def _new_cache(self) -> LeanCache:
        return LeanCache(self._compiled.kv_shape, torch.float32, self._model.device, CHUNK)

    def _append(self, token_ids: Tensor) -> None:
        end = self.length + len(token_ids)
        self._cache.seen(self.length, end)
        for first in range(self.length, end, PREFILL_ROWS):
            piece = token_ids[first - self.length :][:PREFILL_ROWS]
            rows = text_of(self._cache.buffer, first, len(piece))
            self._compiled.forward(piece, [rows], 0)

    @property
    def model(self) -> Wrapped:
        """Whose compiled forward takes these rows beside those of other sessions."""
        return self._model

    @inferring
    def forward(self, token_ids: Tensor, parents: Sequence[int]) -> Tensor:
        """Add n pending nodes with these parents and return their logits [n, vocabulary], float32.

        They are inference tensors: outside of `torch.inference_mode` nothing can change them in place.
        Raises ValueError where the context is full.
        """
        assert len(parents) == len(token_ids), f"{len(token_ids)} tokens, {len(parents)} parents"
        return self.score(token_ids, [self.pend(parents)], len(token_ids))

    def pend(self, parents: Sequence[int]) -> Rows:
        """Add pending nodes that a forward is to score, perhaps of several texts: their rows.

        Raises ValueError where the context is full.
        """
        before, pending = len(self._parents), self._parents + tuple(parents)
        lines = lines_of(pending, before, self._lines)
        self._model.check_room(self.length + lines.depth)
        self._parents = pending
        self._cache.seen(self.length + before, self.length + len(pending))
        return rows_of(self._cache.buffer, self.length, self.length + before, lines)

    def score(self, token_ids: Tensor, pended: Sequence[Rows], scored: int) -> Tensor:
        """As `LeanSession.score`."""
        return self._compiled.forward(token_ids, pended, scored)
