"""Sessions that run the model's own forward pass with our cache, on trees or sequences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from specdec.devices import upload
from specdec.models.cache import (
    CHUNK,
    Masks,
    StackedCache,
    TreeCache,
    cache_argument,
    cached_tree_masks,
    tree_masks,
)
from specdec.models.weights import evaluating

if TYPE_CHECKING:
    from specdec.models.base import PreparedModel

PREFILL_CHUNK = 1024
"""The most tokens in one forward pass of a prefill. This limits the memory that attention takes."""
LARGEST_CACHED_MASK = 1 << 21
"""Masks of at most this many entries are cached, so that later rounds with the same tree reuse them."""


def inferring(method: Callable) -> Callable:
    """A decorator: the method computes no gradients, and runs the module in evaluation mode."""

    @wraps(method)
    def call(self: Any, *args: Any) -> Any:
        with torch.inference_mode(), evaluating(self.model.module):
            return method(self, *args)

    return call


def check_chain(model: PreparedModel, parents: Sequence[int], first: int, count: int) -> None:
    """ValueError if `count` new nodes with these parents do not continue a chain of `first` nodes."""
    chain = [*range(first - 1, first - 1 + count)]
    if list(parents) != chain:
        raise ValueError(f"parents {list(parents)} are not the chain {chain}. {model.capability_reason}")


def check_single(model: PreparedModel, parents: Sequence[int], none_pending: bool) -> None:
    """ValueError unless the only pending node is a new one with these parents."""
    if not none_pending or list(parents) != [-1]:
        raise ValueError(
            f"parents {list(parents)} are not [-1], one token at a time. {model.capability_reason}"
        )


@dataclass(frozen=True)
class Layout:
    """The attention masks that a model takes: one for all layers, or one for each type of layer.

    windows: the sliding window of each layer; None for a layer without a window. by_type: the window of each
    type of layer; None instead of the mapping if the model takes one mask for all.
    """

    windows: tuple[int | None, ...]
    by_type: Mapping[str, int | None] | None

    @cached_property
    def distinct(self) -> tuple[int | None, ...]:
        """The different windows (None for no window); one mask is built for each."""
        return tuple(set(self.by_type.values() if self.by_type is not None else self.windows)) or (None,)

    @cached_property
    def widest(self) -> int:
        """The number of prefix tokens in the widest window; 0 without windows."""
        return max((window - 1 for window in self.distinct if window), default=0)

    def mask_at(self, masks: Masks, length: int) -> Tensor | dict[str, Tensor | None] | None:
        """The argument `attention_mask` for a forward pass after `length` committed tokens."""
        if self.by_type is None:
            return masks.at(length, self.distinct[0])
        return {name: masks.at(length, window) for name, window in self.by_type.items()}


UNWINDOWED = Layout((), None)
"""One mask without a window for all layers."""


class TreeSession:
    """A session with our own cache, whose pending nodes form a tree. A node sees the prefix, its ancestors
    and itself.

    ancestors_only=False lets each node see all earlier nodes: a wrong mask, which the self-check must notice.
    switch: the position at which rotary angles change (longrope); None if they do not. The angles depend on
    the largest position in a forward pass, so every pass of a prefill must reach `switch`.
    """

    must_catch_up = False

    def __init__(
        self,
        model: PreparedModel,
        layout: Layout = UNWINDOWED,
        ancestors_only: bool = True,
        switch: int | None = None,
    ):
        self.length = 0
        self.model = model
        self._layout = layout
        self._ancestors_only = ancestors_only
        self._switch = switch
        self._cache: TreeCache | StackedCache = self._new_cache()
        self._parents: tuple[int, ...] = ()

    @cached_property
    def _cache_argument(self) -> str:
        return cache_argument(self.model.module)

    def _new_cache(self) -> TreeCache | StackedCache:
        return TreeCache(self._layout.windows)

    @inferring
    def prefill(self, token_ids: Sequence[int]) -> None:
        """Append tokens to the committed prefix; the model makes its own masks for them."""
        assert not self._parents, "prefill while nodes are pending"
        self.model.check_room(self.length + len(token_ids) - 1)
        for start in range(0, len(token_ids), PREFILL_CHUNK):
            chunk = upload(token_ids[start : start + PREFILL_CHUNK], self.model.device)
            self._append(chunk)
            self.length += len(chunk)
            self._cache.commit_all(self.length)

    def _append(self, token_ids: Tensor) -> None:
        end = self.length + len(token_ids)
        arguments: dict[str, Tensor] = {}
        if self._switch is not None and end <= self._switch:
            # A further token at position `switch`, which no other token sees and which the cache drops.
            token_ids = torch.cat([token_ids, token_ids[:1]])
            positions = [*range(self.length, end), self._switch]
            arguments["position_ids"] = upload(positions, token_ids.device)[None]
        # `base_model` leaves out the output layer, because these logits are not needed.
        self.model.module.base_model(
            input_ids=token_ids[None], use_cache=True, **{self._cache_argument: self._cache}, **arguments
        )

    @inferring
    def commit(self, nodes: Sequence[int]) -> None:
        """Commit these pending nodes, each a child of the one before, and drop all others."""
        above = -1
        for node in nodes:
            assert self._parents[node] == above, f"committed nodes {list(nodes)} are no path from the prefix"
            above = node
        self._cache.commit(self.length, nodes)
        self.length += len(nodes)
        self._parents = ()

    @inferring
    def forward(self, token_ids: Tensor, parents: Sequence[int]) -> Tensor:
        """Add n pending nodes with these parents and return their logits [n, vocabulary].

        The logits can be changed in place only inside `torch.inference_mode`.
        ValueError if the context is full.
        """
        assert len(parents) == len(token_ids), f"{len(token_ids)} tokens, {len(parents)} parents"
        return self.score(token_ids.to(self.model.device), [self.pend(parents)], len(token_ids))

    def pend(self, parents: Sequence[int]) -> Any:
        """Add pending nodes; return the data that `score` needs, here masks. ValueError if the context is
        full."""
        model, windows = self.model, self._layout.distinct
        pending = self._parents + tuple(parents)
        # The prefix length is rounded up to a power of two, so that few masks are built while it grows.
        columns = min(max(CHUNK, 1 << self.length.bit_length()), self._layout.widest)
        build = cached_tree_masks if len(pending) * columns <= LARGEST_CACHED_MASK else tree_masks
        masks = build(
            pending, len(self._parents), columns, windows, model.dtype, model.device, self._ancestors_only
        )
        model.check_room(self.length + masks.depth)
        self._parents = pending
        return masks

    def score(self, token_ids: Tensor, pended: Sequence[Any], scored: int) -> Tensor:
        """Logits [scored, vocabulary] of the first `scored` of these nodes. Keys and values go to the cache.

        token_ids: int64 [nodes], on the model's device. pended: results of `pend`. Subclasses with our own
        forward pass also take nodes of several sessions of one model, one session after the other.
        """
        arguments = self._seen(*pended)
        output = self.model.module(
            input_ids=token_ids[None], use_cache=True, **{self._cache_argument: self._cache}, **arguments
        )
        return output.logits[0, :scored].to(self.model.device)

    def _seen(self, masks: Masks) -> dict[str, Any]:
        """The arguments that tell the model where the nodes are and which tokens they see."""
        mask = self._layout.mask_at(masks, self.length)
        return {"attention_mask": mask, "position_ids": masks.depths + self.length}


class SequenceSession(TreeSession):
    """A session whose pending nodes form one chain, for which the model's own causal attention is right."""

    def forward(self, token_ids: Tensor, parents: Sequence[int]) -> Tensor:
        """Add n pending nodes, each the child of the one before; return their logits [n, vocabulary]."""
        check_chain(self.model, parents, len(self._parents), len(token_ids))
        return super().forward(token_ids, parents)

    def _seen(self, masks: Masks) -> dict[str, Any]:  # noqa: ARG002
        return {}
