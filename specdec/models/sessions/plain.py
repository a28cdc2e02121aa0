"""Sessions that score one token at a time, for any causal model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from transformers.utils import ModelOutput

from specdec.models.sessions.cached import inferring

if TYPE_CHECKING:
    from specdec.models.base import PreparedModel

OWN_CACHES = ("past_key_values", "cache_params", "state")
"""Names under which models return their cache; each is also the name of the argument that takes it."""


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
        if self._pending is not None or list(parents) != [-1]:
            raise ValueError(
                f"parents {list(parents)} are not [-1], one token at a time. {self.model.capability_reason}"
            )
        self.model.check_room(self.length)
        self._pending = int(token_ids[0])
        return self._next_logits(self._pending).to(self.model.device)

    def commit(self, nodes: Sequence[int]) -> None:
        """Commit the pending token ([0]) or drop it ([])."""
        assert list(nodes) in ([], [0]), f"committed nodes {list(nodes)}, but only [0] can be pending"
        if nodes:
            assert self._pending is not None, "no token is pending"
            self._token_ids.append(self._pending)
        elif self._pending is not None:
            self._forget()
        self._pending = None

    def _next_logits(self, token_id: int) -> Tensor:
        return self._call([*self._token_ids, token_id], use_cache=False).logits[0, -1:]

    def _forget(self) -> None:
        """Called when the pending token is dropped; subclasses reset their state here."""

    def _call(self, token_ids: list[int], **kwargs: Any) -> Any:
        return self.model.module(input_ids=torch.tensor([token_ids], device=self.model.device), **kwargs)


class SteppingSession(PlainSession):
    """A session for one pending token at a time, with the model's own cache, of any kind."""

    _cache: dict[str, object] | None
    _fed: int

    def __init__(self, model: PreparedModel):
        super().__init__(model)
        self._forget()

    @inferring
    def prefill(self, token_ids: Sequence[int]) -> None:
        """Append tokens to the committed prefix and let the model read them into its cache."""
        super().prefill(token_ids)
        self._advance(self._token_ids)

    def _next_logits(self, token_id: int) -> Tensor:
        logits = self._advance([*self._token_ids, token_id])
        assert logits is not None, "the cache holds a token that is still pending"
        return logits

    def _advance(self, token_ids: list[int]) -> Tensor | None:
        """Run the model over the tokens that its cache lacks; return the logits [1, vocabulary] of the last.

        If there is no cache yet, all tokens are read in one forward pass; later tokens are read one by one.
        """
        logits = None
        while self._fed < len(token_ids):
            end = len(token_ids) if self._cache is None else self._fed + 1
            output = self._call(token_ids[self._fed : end], use_cache=True, **(self._cache or {}))
            self._cache = own_cache(output)
            self._fed, logits = end, output.logits[0, -1:]
        return logits

    def _forget(self) -> None:
        # A recurrent state can't drop a token, so the next forward pass reads the whole text again.
        self._cache, self._fed = None, 0


def own_cache(output: ModelOutput) -> dict[str, object]:
    """The cache that a model returns, as {name of the model's argument for it: cache}."""
    for name in OWN_CACHES:
        if output.get(name) is not None:
            return {name: output[name]}
    raise ValueError("the model returns no cache")
