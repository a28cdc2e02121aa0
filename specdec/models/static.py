"""A forward whose every input is a tensor at a fixed address: what a CUDA graph can replay for another tree.

`LeanSession` slices its cache by Python numbers, which a graph would keep as they were. Here the length of
the text, the nodes' depths and places and what they see are data, and attention always runs over the whole
capacity. What a node sees needs one row of masks in which prefix and free places are a column each:

    bias       [ prefix | pending 0, 1, ... (WIDTH of them) | free ]        0 where seen, else finfo.min
    column          0      1, 2, ...                          WIDTH + 1
    mask of place j        column clamp(j - length + 1, 0, WIDTH + 1)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn.functional import pad

from specdec.models.cache import Masks, tree_masks
from specdec.models.lean import LeanDecoder

WIDTH = 128
"""The most pending nodes: the page's trees have up to 64 and their root, and the draft lags by one."""


@dataclass(frozen=True)
class StaticMasks(Masks):
    """Masks, and the same as data of a static forward."""

    places: Tensor
    """int64 [2, n]: the nodes' depths and numbers, both counted from the end of the prefix."""
    bias: Tensor
    """[n, 1 + WIDTH + 1] in the model's dtype."""


@lru_cache(maxsize=256)
def static_masks(
    parents: tuple[int, ...], first: int, dtype: torch.dtype, device: torch.device, lines: bool
) -> StaticMasks:
    """Of the pending nodes first, first + 1, ... of at most `WIDTH`; lines as for `tree_masks`.

    Remembered: a decoder asks for the same few shapes in every round.
    """
    masks = tree_masks(parents, first, 0, (None,), dtype, device, lines)
    n, m = masks.offsets.shape[1], masks.pending
    mask = masks.by_window[None]
    seen = torch.zeros(n, m, dtype=dtype, device=device) if mask is None else mask[0, 0]
    bias = pad(pad(seen, (1, 0)), (0, WIDTH + 1 - m), value=torch.finfo(dtype).min)
    places = torch.stack([masks.offsets[0], torch.arange(first, m, device=device)])
    return StaticMasks(masks.offsets, masks.depth, m, masks.by_window, places, bias)


class StaticForward:
    """The lean forward over n pending nodes, in and out of tensors at fixed addresses.

    kv: [layers, 2 x key-value heads, capacity, head size], finite also where no token is: what a node does
    not see has no weight, but NaN times zero is NaN. turns: `LeanDecoder.turns` of at least as many
    positions.
    """

    def __init__(self, decoder: LeanDecoder, kv: Tensor, turns: Tensor, n: int):
        self._decoder, self._kv, self._turns = decoder, kv, turns
        self._token_ids = torch.zeros(n, dtype=torch.int64, device=kv.device)
        self._places = torch.zeros(2, n, dtype=torch.int64, device=kv.device)
        self._bias = kv.new_zeros(n, WIDTH + 2)
        self._length = torch.zeros((), dtype=torch.int64, device=kv.device)
        self._columns = torch.arange(1, kv.shape[2] + 1, device=kv.device)

    def load(self, token_ids: Tensor, masks: StaticMasks, length: int) -> None:
        """What the next run is about: tokens [n] of the nodes of these masks, behind a prefix of `length`."""
        self._token_ids.copy_(token_ids)
        self._places.copy_(masks.places)
        self._bias.copy_(masks.bias)
        self._length.fill_(length)

    def __call__(self) -> Tensor:
        """Logits [n, vocabulary]; keys and values go to the cache, the same ones however often it runs."""
        positions, places = (self._places + self._length).unbind()
        columns = (self._columns - self._length).clamp(0, WIDTH + 1)
        mask = self._bias.index_select(1, columns)[None, None]
        turns = self._turns.index_select(0, positions)
        return self._decoder.logits(self._decoder.hidden(self._token_ids, self._kv, places, turns, mask))
