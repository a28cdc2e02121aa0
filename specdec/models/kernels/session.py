"""A run on the compiled forward."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from specdec.models.cache import CHUNK
from specdec.models.kernels.decoder import Calls, lines_of
from specdec.models.lean import LeanCache
from specdec.models.sessions import CachedSession, Layout, inferring

if TYPE_CHECKING:
    from specdec.models.base import Wrapped

PREFILL_ROWS = 96
"""Tokens of a prompt in one call: their numbers between two phases stay in the processor's cache."""


class CompiledSession(CachedSession):
    """A tree session on `CompiledDecoder`: each node's logits are the same, to the bit, in every tree.

    lines=False lets every node see all nodes before it: the control of the self-check.
    """

    def __init__(self, model: Wrapped, layout: Layout, lines: bool = True):
        super().__init__(model, layout)
        self._calls = Calls(model.compiled)
        self._lines = lines

    def _new_cache(self) -> LeanCache:
        return LeanCache(self._model.compiled, torch.float32, self._model.device, CHUNK)

    def _append(self, token_ids: Tensor) -> None:
        for start in range(0, len(token_ids), PREFILL_ROWS):
            rows, first = token_ids[start : start + PREFILL_ROWS], self.length + start
            self._cache.seen(first, first + len(rows))
            self._calls.forward(rows, self._cache.buffer, first, first, None, False)

    @inferring
    def forward(self, token_ids: Tensor, parents: Sequence[int]) -> Tensor:
        """Add n pending nodes with these parents and return their logits [n, vocabulary], float32.

        They are inference tensors: outside of `torch.inference_mode` nothing can change them in place.
        Raises ValueError where the context is full.
        """
        assert len(parents) == len(token_ids), f"{len(token_ids)} tokens, {len(parents)} parents"
        first = self.length + len(self._parents)
        pending = self._parents + tuple(parents)
        lines = lines_of(pending, len(self._parents), self._lines)
        self._model.check_room(self.length + lines.depth)
        self._parents = pending
        self._cache.seen(first, first + len(token_ids))
        return self._calls.forward(token_ids, self._cache.buffer, self.length, first, lines, True)
