"""The key-value cache of one run, and the masks with which a forward pass over it attends along a tree.

Every layer has one buffer: first the committed prefix, then the pending nodes in the order in which they were
added. Attention gets views of it, so nothing is copied per forward pass. `commit` moves the accepted nodes to
the end of the prefix in place.

    buffer   [ committed prefix ........ | pending nodes ... | free ...... ]
                                         ^ committed         ^ used        ^ capacity
    view          [ last window-1 tokens | pending nodes ... ]      of a sliding-window layer
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from inspect import signature
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers.cache_utils import Cache, DynamicLayer

from specdec.devices import upload

if TYPE_CHECKING:
    from transformers import PreTrainedModel

CHUNK = 256
"""A buffer that grows gets room for this many tokens more than it needs, so that it is copied rarely."""


def _moves(prefix: int, nodes: Sequence[int]) -> tuple[int, list[int]]:
    """The first place to which committed nodes must be moved, and the present places of the nodes to move.

    Nodes that lie directly behind the prefix already are left out: 9 and [0, 2, 5] give (10, [11, 14]).
    """
    in_place = next((i for i, node in enumerate(nodes) if i != node), len(nodes))
    return prefix + in_place, [prefix + node for node in nodes[in_place:]]


def cache_argument(module: PreTrainedModel) -> str:
    """The name of the argument of a model's `forward` that takes its cache: transformers 5.24 renamed it.

    The argument is looked up in the base model, because `forward` of the whole model may only pass it on.
    """
    return "cache" if "cache" in signature(module.base_model.forward).parameters else "past_key_values"


class StackedCache:
    """Keys and values of all layers in one buffer [layers, 2 x heads, capacity, head size].

    shape: (layers, 2 x heads, head size).
    """

    def __init__(self, shape: tuple[int, int, int], dtype: torch.dtype, device: torch.device):
        layers, heads, size = shape
        self.buffer = torch.empty(layers, heads, 0, size, dtype=dtype, device=device)

    def reserved(self, length: int, end: int) -> Tensor:
        """A view of the first `end` places, `length` of them filled. A buffer that is too small grows."""
        if end > self.buffer.shape[2]:
            layers, heads, _, size = self.buffer.shape
            larger = self.buffer.new_empty(layers, heads, end + CHUNK, size)
            larger[:, :, :length] = self.buffer[:, :, :length]
            self.buffer = larger
        return self.buffer[:, :, :end]

    def commit(self, prefix: int, nodes: Sequence[int]) -> None:
        """Moves these pending nodes to the end of a prefix of `prefix` tokens."""
        first, rows = _moves(prefix, nodes)
        if rows:
            indices = upload(rows, self.buffer.device)
            self.buffer[:, :, first : first + len(rows)] = self.buffer.index_select(2, indices)

    def commit_all(self, length: int) -> None:
        """Does nothing: the next forward pass overwrites whatever lies behind the prefix."""


class BufferLayer(DynamicLayer):
    """Keys and values of one layer, [1, heads, capacity, head size], written in place.

    window: how many tokens a token attends to in a sliding-window layer, itself included; None for all.
    """

    keys: Tensor
    values: Tensor

    def __init__(self, window: int | None = None):
        super().__init__()
        self.window = window
        self.is_sliding = window is not None
        self.committed = 0
        self.used = 0

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Takes dtype and device from the first keys and values. `update` allocates the buffer."""
        self.dtype, self.device = key_states.dtype, key_states.device
        self.keys, self.values = key_states[:, :, :0], value_states[:, :, :0]
        self.is_initialized = True

    def update(
        self, key_states: Tensor, value_states: Tensor, *_args: object, **_kwargs: object
    ) -> tuple[Tensor, Tensor]:
        """Append keys and values [1, heads, n, head size]; return views of all tokens that the n may see."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        first, end = self.used, self.used + key_states.shape[2]
        if end > self.keys.shape[2]:
            self.keys, self.values = (self._larger(each, end + CHUNK) for each in (self.keys, self.values))
        self.keys[:, :, first:end] = key_states
        self.values[:, :, first:end] = value_states
        self.used = end
        start = self._start()
        return self.keys[:, :, start:end], self.values[:, :, start:end]

    def get_seq_length(self) -> int:
        """The number of tokens in the cache, committed and pending."""
        return self.used

    def get_mask_sizes(self, query_length: int | Tensor) -> tuple[int, int]:
        """The length of the view that `update` will return for this many new tokens, and its first place."""
        if isinstance(query_length, Tensor):  # older transformers hand over the positions
            query_length = query_length.shape[0]
        start = self._start()
        return self.used - start + query_length, start

    def _start(self) -> int:
        # The view begins where the first pending node's window begins, as the masks do; later nodes see less.
        return 0 if self.window is None else max(0, self.committed - self.window + 1)

    def _larger(self, buffer: Tensor, capacity: int) -> Tensor:
        batch, heads, _, size = buffer.shape
        larger = buffer.new_empty(batch, heads, capacity, size)
        larger[:, :, : self.used] = buffer[:, :, : self.used]
        return larger


class TreeCache(Cache):
    """A cache with one `BufferLayer` for each attention layer, which is made when that layer first runs.

    windows: the window of each layer; layers beyond the end of this list have none.
    """

    layers: list[BufferLayer]  # type: ignore[assignment]  # made by `_new_layer` alone

    def __init__(self, windows: Sequence[int | None] = ()):
        super().__init__(layer_class_to_replicate=self._new_layer)  # type: ignore[arg-type]  # calls it only
        self._windows = windows

    def commit(self, prefix: int, nodes: Sequence[int]) -> None:
        """Commits these pending nodes after a prefix of `prefix` tokens, and drops all others."""
        first, rows = _moves(prefix, nodes)
        layers = [layer for layer in self.layers if rows and layer.is_initialized]
        indices = {device: upload(rows, device) for device in {layer.device for layer in layers}}
        for layer in layers:
            for buffer in (layer.keys, layer.values):
                moved = buffer.index_select(2, indices[layer.device])
                buffer[:, :, first : first + len(rows)] = moved
        self.commit_all(prefix + len(nodes))

    def commit_all(self, length: int) -> None:
        """Makes the first `length` tokens the prefix; no node is pending afterwards."""
        for layer in self.layers:
            layer.committed = layer.used = length

    def _new_layer(self) -> BufferLayer:
        index = len(self.layers)
        return BufferLayer(self._windows[index] if index < len(self._windows) else None)


@dataclass(frozen=True)
class Masks:
    """The attention masks of the last n of m pending nodes, for a prefix of any length.

    If columns are counted from the end of the prefix, a mask does not depend on the prefix's length. So it is
    built once, right-aligned, and each forward pass only cuts or pads it to its prefix.

          prefix columns | pending nodes (m of them)
        .. 0 0 0 0 0 0 0 | 0 x x        x = finfo.min
        .. x 0 0 0 0 0 0 | 0 x 0        (here a window hides the prefix from deeper nodes)
    """

    depths: Tensor
    """int64 [1, n]: the positions of the n nodes, counted from the end of the prefix."""
    depth: int
    """The largest entry of `depths`."""
    pending: int
    """m, the number of pending nodes."""
    by_window: Mapping[int | None, Tensor | None]
    """For each window its additive mask, [1, 1, n, prefix columns + m] in the model's dtype. Without a
    window, the mask has no prefix columns. A single node that sees everything has None, because attention
    is fastest without a mask."""

    def at(self, length: int, window: int | None) -> Tensor | None:
        """The mask [1, 1, n, visible part of the prefix + m] for a prefix of `length` tokens."""
        mask = self.by_window[window]
        if mask is None:
            return None
        if window is None:
            return pad(mask, (length, 0))
        return mask[..., max(0, mask.shape[-1] - self.pending - length) :]


class PendingText(NamedTuple):
    """The last n pending nodes of one text: their masks, the cache with room for them, the prefix length."""

    masks: Masks
    cache: StackedCache
    length: int

    @property
    def rows(self) -> int:
        """n, the number of nodes that a forward pass computes."""
        return self.masks.depths.shape[1]


def tree_masks(
    parents: Sequence[int],
    first: int,
    columns: int,
    windows: Iterable[int | None],
    dtype: torch.dtype,
    device: torch.device,
    ancestors_only: bool = True,
) -> Masks:
    """Masks of the pending nodes first, first + 1, ... of a tree given by its parents.

    columns: the most prefix columns of a windowed mask. ancestors_only=False lets every node see all earlier
    nodes: a wrong mask, which the self-check must notice.
    """
    depths, visible = _depths_and_ancestors(parents)
    if not ancestors_only:
        visible = torch.ones_like(visible).tril()
    by_window = {}
    for window in windows:
        allowed = _windowed(depths, visible, first, columns, window)
        mask = torch.zeros(allowed.shape, dtype=dtype).masked_fill_(~allowed, torch.finfo(dtype).min)
        by_window[window] = None if len(allowed) == 1 and allowed.all() else mask[None, None].to(device)
    deepest = int(depths[first:].max())  # on the CPU, so that no device is waited for
    return Masks(depths[None, first:].to(device), deepest, len(parents), by_window)


cached_tree_masks = lru_cache(maxsize=64)(tree_masks)
"""`tree_masks` with a cache of its results, because decoding uses the same few trees in every round."""


def _depths_and_ancestors(parents: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Depths of the nodes, [m]; and bool [m, m], whether node j is node i itself or an ancestor of it."""
    depths: list[int] = []
    visible = torch.eye(len(parents), dtype=torch.bool)
    for node, parent in enumerate(parents):
        assert -1 <= parent < node, f"node {node} has parent {parent}; parents come before children"
        depths.append(depths[parent] + 1 if parent >= 0 else 0)
        if parent >= 0:
            visible[node] |= visible[parent]
    return torch.tensor(depths), visible


def _windowed(depths: Tensor, visible: Tensor, first: int, columns: int, window: int | None) -> Tensor:
    """Bool [n, prefix columns + m]: the tokens that each node from `first` on may attend to in a window."""
    if window is None:
        return visible[first:]
    # A node lies depth + 1 positions after the prefix's last token, and sees tokens less than `window` back.
    back = torch.arange(min(columns, window - 1), 0, -1)
    near = depths[first:, None] - depths < window
    return torch.cat([depths[first:, None] + back < window, visible[first:] & near], 1)
