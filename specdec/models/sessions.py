"""Sessions over a Hugging Face model: the caches of one run, for each thing that a model can do.

tree       GraphSession      the next one, replayed as CUDA graphs where they were asked for (`graphs`)
           LeanSession       own cache and own forward, for the decoders that `lean` knows
           CompiledSession   the same as one compiled call on a CPU (`kernels`)
           TreeSession       own cache, attention masks along the tree
           SwitchingSession  two of them, around a length at which the rotary embedding changes
sequence   SequenceSession   own cache, the model's own causal attention
ar         SteppingSession   the model's own cache or state, one token at a time
           PlainSession      no cache at all: a forward over everything, for each token
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial, wraps
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from transformers.utils import ModelOutput

from specdec.devices import upload
from specdec.models.cache import CHUNK, Masks, TreeCache, cached_tree_masks, tree_masks
from specdec.models.lean import LeanCache
from specdec.models.together.attention import Rows
from specdec.models.weights import evaluating

if TYPE_CHECKING:
    from specdec.models.base import Wrapped
    from specdec.models.lean import LeanDecoder

PREFILL_CHUNK = 1024
"""Tokens per forward of a prefill: bounds the memory that attention takes."""
LARGEST_CACHED_MASK = 1 << 21
"""Entries of a mask up to which it is remembered for the next round."""
OWN_CACHES = ("past_key_values", "cache_params", "state")
"""Names under which models hand out their cache and take it back."""


def inferring(method: Callable) -> Callable:
    """Without gradients, and with the module in evaluation mode while it is called."""

    @wraps(method)
    def call(self: Any, *args: Any) -> Any:
        with torch.inference_mode(), evaluating(self._model.module):
            return method(self, *args)

    return call


@dataclass(frozen=True)
class Layout:
    """Which masks a model wants: one for all layers, or one for each type of layer.

    windows: sliding window of each layer, None without. by_type: window of each type of layer;
    None where the model takes one mask for all.
    """

    windows: tuple[int | None, ...]
    by_type: Mapping[str, int | None] | None

    @cached_property
    def distinct(self) -> tuple[int | None, ...]:
        """The windows for which masks are to be built."""
        return tuple(set(self.by_type.values() if self.by_type is not None else self.windows)) or (None,)

    @cached_property
    def widest(self) -> int:
        """Prefix tokens that the widest window reaches; 0 without windows."""
        return max((window - 1 for window in self.distinct if window), default=0)

    def mask_at(self, masks: Masks, length: int) -> Tensor | dict[str, Tensor | None] | None:
        """The `attention_mask` argument of a forward behind `length` committed tokens."""
        if self.by_type is None:
            return masks.at(length, self.distinct[0])
        return {name: masks.at(length, window) for name, window in self.by_type.items()}


class CachedSession:
    """What sessions with a cache of ours share: the committed prefix and the pending nodes.

    beyond: a position that every prefill is to reach, as the rotary embedding of all its tokens depends on
    the largest one.
    """

    def __init__(self, model: Wrapped, layout: Layout, beyond: int | None = None):
        self.length = 0
        self._model = model
        self._layout = layout
        self._beyond = beyond
        self._cache: TreeCache | LeanCache = self._new_cache()
        self._parents: tuple[int, ...] = ()

    def _new_cache(self) -> TreeCache | LeanCache:
        return TreeCache(self._layout.windows)

    @inferring
    def prefill(self, token_ids: Sequence[int]) -> None:
        """Append tokens to the committed prefix; the model makes its own masks for them."""
        assert not self._parents, "prefill while nodes are pending"
        self._model.check_room(self.length + len(token_ids) - 1)
        for start in range(0, len(token_ids), PREFILL_CHUNK):
            chunk = upload(token_ids[start : start + PREFILL_CHUNK], self._model.device)
            self._append(chunk)
            self.length += len(chunk)
            self._cache.commit(self.length)

    def _append(self, token_ids: Tensor) -> None:
        end = self.length + len(token_ids)
        arguments: dict[str, Tensor] = {}
        if self._beyond is not None and end <= self._beyond:
            # One token more, which no other sees and which the cache drops.
            token_ids = torch.cat([token_ids, token_ids[:1]])
            there = [*range(self.length, end), self._beyond]
            arguments["position_ids"] = upload(there, token_ids.device)[None]
        # Without the head: nobody asks for these logits.
        self._model.module.base_model(
            input_ids=token_ids[None], past_key_values=self._cache, use_cache=True, **arguments
        )

    @inferring
    def keep(self, nodes: Sequence[int]) -> None:
        """Commit these pending nodes, a line of descent from the prefix, and drop all others."""
        above = -1
        for node in nodes:
            assert self._parents[node] == above, f"kept nodes {list(nodes)} are not one line of descent"
            above = node
        self._cache.keep(self.length, nodes)
        self.length += len(nodes)
        self._parents = ()


class TreeSession(CachedSession):
    """Pending nodes form a tree; masks let each see the prefix, its ancestors and itself.

    lines=False breaks the masks on purpose: the control of the self-check.
    """

    def __init__(self, model: Wrapped, layout: Layout, lines: bool = True, beyond: int | None = None):
        super().__init__(model, layout, beyond)
        self._lines = lines

    @inferring
    def forward(self, token_ids: Tensor, parents: Sequence[int]) -> Tensor:
        """Add n pending nodes with these parents and return their logits [n, vocabulary].

        They are inference tensors: outside of `torch.inference_mode` nothing can change them in place.
        Raises ValueError where the context is full.
        """
        assert len(parents) == len(token_ids), f"{len(token_ids)} tokens, {len(parents)} parents"
        return self._logits(token_ids.to(self._model.device), self._pend(parents))

    def _pend(self, parents: Sequence[int]) -> Masks:
        """Make room for new pending nodes, and the masks that they see through."""
        pending = self._parents + tuple(parents)
        masks = self._masks(pending, len(self._parents))
        self._model.check_room(self.length + masks.depth)
        self._parents = pending
        return masks

    def _logits(self, token_ids: Tensor, masks: Masks) -> Tensor:
        output = self._model.module(
            input_ids=token_ids[None],
            attention_mask=self._layout.mask_at(masks, self.length),
            position_ids=masks.offsets + self.length,
            past_key_values=self._cache,
            use_cache=True,
        )
        return output.logits[0].to(self._model.device)

    def _masks(self, parents: tuple[int, ...], first: int) -> Masks:
        model, windows = self._model, self._layout.distinct
        # Powers of two, so that few masks are built while the prefix grows.
        columns = min(max(CHUNK, 1 << self.length.bit_length()), self._layout.widest)
        small = len(parents) * columns <= LARGEST_CACHED_MASK
        build = cached_tree_masks if small else tree_masks
        return build(parents, first, columns, windows, model.dtype, model.device, self._lines)


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


class SequenceSession(CachedSession):
    """Pending nodes form one chain, over which the model attends in its ordinary way."""

    @inferring
    def forward(self, token_ids: Tensor, parents: Sequence[int]) -> Tensor:
        """Add n pending nodes, each the child of the one before; return logits [n, vocabulary]."""
        model, first = self._model, len(self._parents)
        chain = tuple(range(first - 1, first - 1 + len(token_ids)))
        if tuple(parents) != chain:
            raise ValueError(f"parents {tuple(parents)} are not the chain {chain}. {model.capability_reason}")
        model.check_room(self.length + first + len(chain) - 1)
        self._parents += chain
        output = model.module(
            input_ids=token_ids.to(model.device)[None], past_key_values=self._cache, use_cache=True
        )
        return output.logits[0].to(model.device)


class SwitchingSession:
    """A tree session for models whose rotary embedding changes with the length of the text (longrope).

    A forward over more than `switch` tokens turns all its keys by other angles, the first ones included. So
    nodes whose lines have up to `switch` tokens are scored behind one cache, and those beyond behind another,
    which is made when the first of them comes: over the whole text, as such a forward would.
    """

    _near_numbers: dict[int, int]
    _fed: int

    def __init__(self, model: Wrapped, layout: Layout, switch: int, lines: bool = True):
        self._switch = switch
        self._open = partial(TreeSession, model, layout, lines)
        self._near: TreeSession | None = self._open()
        self._far: TreeSession | None = None
        self._text: list[int] = []
        self._forget()

    @property
    def length(self) -> int:
        """Committed tokens."""
        return len(self._text)

    def prefill(self, token_ids: Sequence[int]) -> None:
        """Append tokens to the committed prefix."""
        assert not self._parents, "prefill while nodes are pending"
        self._text += token_ids
        self._leave_near()
        if self._near is not None:
            self._near.prefill(token_ids)

    def forward(self, token_ids: Tensor, parents: Sequence[int]) -> Tensor:
        """Add n pending nodes with these parents and return their logits [n, vocabulary]."""
        first = len(self._parents)
        for parent in parents:
            self._lengths.append((self._lengths[parent] if parent >= 0 else self.length) + 1)
        self._parents += parents
        self._token_ids += token_ids.tolist()
        new = range(first, len(self._parents))
        near = [node for node in new if self._lengths[node] <= self._switch]
        if len(near) == len(new):
            return self._forward_near(near)
        rows = self._forward_far()[-len(new) :]
        if near:
            rows = rows.clone()
            rows[[node - first for node in near]] = self._forward_near(near)
        return rows

    def keep(self, nodes: Sequence[int]) -> None:
        """Commit these pending nodes, a line of descent from the prefix, and drop all others."""
        if self._near is not None:
            self._near.keep([self._near_numbers[node] for node in nodes if node in self._near_numbers])
        if self._far is not None:
            self._far.keep([node for node in nodes if node < self._fed])
        self._text += [self._token_ids[node] for node in nodes]
        self._leave_near()
        self._forget()

    def _forward_near(self, nodes: Sequence[int]) -> Tensor:
        first = len(self._near_numbers) - 1
        self._near_numbers.update({node: first + i for i, node in enumerate(nodes)})
        parents = [self._near_numbers[self._parents[node]] for node in nodes]
        assert self._near is not None, "the text lies beyond the switch"
        return self._near.forward(torch.tensor([self._token_ids[node] for node in nodes]), parents)

    def _forward_far(self) -> Tensor:
        """Logits of all nodes that the far cache lacks; the last of them lies beyond the switch."""
        if self._far is None:
            self._far = self._open(beyond=self._switch)
        if not self._fed:
            self._far.prefill(self._text[self._far.length :])
        token_ids, parents = self._token_ids[self._fed :], self._parents[self._fed :]
        self._fed = len(self._parents)
        return self._far.forward(torch.tensor(token_ids), parents)

    def _leave_near(self) -> None:
        if self.length >= self._switch:
            self._near = None

    def _forget(self) -> None:
        """Nothing is pending any more; numbers of nodes in the near cache, and how many the far one has."""
        self._parents: list[int] = []
        self._token_ids: list[int] = []
        self._lengths: list[int] = []
        self._near_numbers, self._fed = {-1: -1}, 0


class PlainSession:
    """One pending token at a time, and a forward over everything for each: right for any causal model."""

    def __init__(self, model: Wrapped):
        self._model = model
        self._token_ids: list[int] = []
        self._pending: int | None = None

    @property
    def length(self) -> int:
        """Committed tokens."""
        return len(self._token_ids)

    def prefill(self, token_ids: Sequence[int]) -> None:
        """Append tokens to the committed prefix."""
        assert self._pending is None, "prefill while a node is pending"
        self._token_ids += token_ids

    @inferring
    def forward(self, token_ids: Tensor, parents: Sequence[int]) -> Tensor:
        """Logits [1, vocabulary] of what follows one token; it becomes the one pending node."""
        if self._pending is not None or list(parents) != [-1]:
            raise ValueError(
                f"parents {list(parents)} are not [-1], one token at a time. {self._model.capability_reason}"
            )
        self._model.check_room(self.length)
        self._pending = int(token_ids[0])
        return self._next_logits(self._pending).to(self._model.device)

    def keep(self, nodes: Sequence[int]) -> None:
        """Commit the pending token ([0]) or drop it ([])."""
        assert list(nodes) in ([], [0]), f"kept nodes {list(nodes)} of one pending token"
        if nodes:
            assert self._pending is not None, "no token is pending"
            self._token_ids.append(self._pending)
        elif self._pending is not None:
            self._forget()
        self._pending = None

    def _next_logits(self, token_id: int) -> Tensor:
        return self._call([*self._token_ids, token_id], use_cache=False).logits[0, -1:]

    def _forget(self) -> None:
        """The pending token was dropped."""

    def _call(self, token_ids: list[int], **kwargs: Any) -> Any:
        return self._model.module(input_ids=torch.tensor([token_ids], device=self._model.device), **kwargs)


class SteppingSession(PlainSession):
    """One pending token at a time, with the model's own cache, whatever that holds."""

    _cache: dict[str, object] | None
    _fed: int

    def __init__(self, model: Wrapped):
        super().__init__(model)
        self._forget()

    @inferring
    def prefill(self, token_ids: Sequence[int]) -> None:
        """Append tokens to the committed prefix and take them into the model's cache."""
        super().prefill(token_ids)
        self._advance(self._token_ids)

    def _next_logits(self, token_id: int) -> Tensor:
        logits = self._advance([*self._token_ids, token_id])
        assert logits is not None, "the cache holds a token that is still pending"
        return logits

    def _advance(self, token_ids: list[int]) -> Tensor | None:
        """Feed what the cache lacks; returns the last token's logits [1, vocabulary].

        The first call takes all at once; a state that is there already only goes on token by token.
        """
        logits = None
        while self._fed < len(token_ids):
            end = len(token_ids) if self._cache is None else self._fed + 1
            output = self._call(token_ids[self._fed : end], use_cache=True, **(self._cache or {}))
            self._cache = _own_cache(output)
            self._fed, logits = end, output.logits[0, -1:]
        return logits

    def _forget(self) -> None:
        # A recurrent state can't step back: the next forward builds it anew.
        self._cache, self._fed = None, 0


def _own_cache(output: ModelOutput) -> dict[str, object]:
    for name in OWN_CACHES:
        if output.get(name) is not None:
            return {name: output[name]}
    raise ValueError("the model hands out no cache")
