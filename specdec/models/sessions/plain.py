"""A session without a cache, for any causal model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from specdec.models.sessions.cached import check_single, inferring

if TYPE_CHECKING:
    from specdec.models.base import PreparedModel


class PlainSession:
    """A session without a cache, for one pending token at a time: each takes a pass over the whole text."""

    must_catch_up = False

    def __init__(self, model: PreparedModel):
        self.model = model
        self._token_ids: list[int] = []
        self._pending: int | None = None

    @property
    def length(self) -> int:
        """The number of committed tokens."""
        return len(self._token_ids)

    def prefill(self, token_ids: Sequence[int]) -> None:
        """Append tokens to the committed prefix."""
        assert self._pending is None, "prefill while a node is pending"
        self._token_ids += token_ids

    @inferring
    def forward(self, token_ids: Tensor, parents: Sequence[int]) -> Tensor:
        """Make this token the only pending node; return the logits [1, vocabulary] of the token after it."""
        check_single(self.model, parents, self._pending is None)
        self.model.check_room(self.length)
        self._pending = int(token_ids[0])
        text = torch.tensor([[*self._token_ids, self._pending]], device=self.model.device)
        return self.model.module(input_ids=text, use_cache=False).logits[0, -1:].to(self.model.device)

    def commit(self, nodes: Sequence[int]) -> None:
        """Commit the pending token ([0]) or drop it ([])."""
        assert list(nodes) in ([], [0]), f"committed nodes {list(nodes)}, but only [0] can be pending"
        if nodes:
            assert self._pending is not None, "no token is pending"
            self._token_ids.append(self._pending)
        self._pending = None
