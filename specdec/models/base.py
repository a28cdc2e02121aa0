"""What decoding needs of a language model: `Model`, and `Session`, the cache of one run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Protocol

import torch
from torch import Tensor

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

    from specdec.models.kernels.decoder import CompiledDecoder
    from specdec.models.lean import LeanDecoder

Capability = Literal["tree", "sequence", "ar"]
"""What a model's cache and attention can do, from the self-check at load: score a tree of
continuations in one forward, score one sequence of them, or only go on token by token."""


class Session(Protocol):
    """The cache of one run: a committed prefix, and a tree of pending nodes hanging from its end.

    Pending nodes are numbered from 0 in the order in which they were added since the last `keep`.
    """

    @property
    def length(self) -> int:
        """Committed tokens."""
        ...

    def prefill(self, token_ids: Sequence[int]) -> None:
        """Append tokens to the committed prefix; no node may be pending."""
        ...

    def forward(self, token_ids: Tensor, parents: Sequence[int]) -> Tensor:
        """Add n pending nodes and return their logits.

        token_ids: int64 [n]. parents: for each, the number of an earlier pending node, or -1 for
        the end of the prefix; may refer to nodes of the same call. Returns logits [n, vocabulary] in
        the model's dtype, or wider, and on its device: row i scores what follows node i.
        """
        ...

    def keep(self, nodes: Sequence[int]) -> None:
        """Commit these pending nodes, a line of descent from the prefix, and drop all others."""
        ...


class Model(Protocol):
    """A causal language model."""

    name: str
    vocab_size: int
    context_length: int
    capability: Capability
    device: torch.device

    def session(self) -> Session:
        """A new empty cache, which grows with its tokens."""
        ...


class Wrapped(Protocol):
    """A model of transformers as the sessions over it see it."""

    name: str
    device: torch.device
    context_length: int
    module: PreTrainedModel
    config: PretrainedConfig
    dtype: torch.dtype
    capability_reason: str
    lean: LeanDecoder | None
    compiled: CompiledDecoder | None

    def check_room(self, last_position: int) -> None:
        """ValueError where the context has no such position."""
        ...
