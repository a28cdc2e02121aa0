"""The interface of a language model for decoding: `Model`, and `Session`, the cache of one run.

`PreparedModel` is a model of transformers after its self-check. A `SessionKind` is one of several ways to
open sessions on such a model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, Protocol

import torch
from torch import Tensor

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

    from specdec.models.kernels.decoder import CompiledDecoder
    from specdec.models.lean import LeanDecoder

Capability = Literal["tree", "sequence", "ar"]
"""What a model can score in one forward pass, as its self-check found: a tree of continuations ("tree"), one
sequence ("sequence"), or only a single token ("ar")."""


class Session(Protocol):
    """The cache of one run: a committed prefix, and a tree of pending nodes at its end.

    Pending nodes are numbered from 0 in the order in which they were added since the last `commit`.
    """

    @property
    def length(self) -> int:
        """The number of committed tokens."""
        ...

    @property
    def must_catch_up(self) -> bool:
        """Whether the next round should draft nothing: without a rejected token its new state can be kept.

        Always False for caches that can drop rejected tokens (`Model.most_repeated` is 0).
        """
        ...

    def prefill(self, token_ids: Sequence[int]) -> None:
        """Append tokens to the committed prefix; no node may be pending."""
        ...

    def forward(self, token_ids: Tensor, parents: Sequence[int]) -> Tensor:
        """Add n pending nodes and return their logits.

        token_ids: int64 [n]. parents: for each node the number of an earlier pending node, also one of the
        same call, or -1 for the end of the prefix. Returns logits [n, vocabulary] in the model's dtype or a
        wider one, on the model's device: row i scores what follows node i.
        """
        ...

    def commit(self, nodes: Sequence[int]) -> None:
        """Commit these pending nodes, each a child of the one before, and drop all others."""
        ...


class Model(Protocol):
    """A causal language model.

    most_repeated: the most accepted tokens that a forward pass must compute a second time, because some
    states, such as recurrent ones, can't drop rejected tokens; 0 for a model without such states.
    """

    name: str
    vocab_size: int
    context_length: int
    capability: Capability
    device: torch.device
    most_repeated: int

    def session(self) -> Session:
        """A new session with an empty cache, which grows with its tokens."""
        ...


@dataclass(frozen=True)
class SessionKind:
    """One of the ways to open sessions on a model of transformers.

    open: opens a session. control: opens a session with a deliberate mistake that a check must notice, a
    wrong mask or a state that is not restored; None if neither is possible. decoder: builds our own forward
    pass for these sessions, or raises an error if it does not fit the module; None where sessions call the
    module itself. most_repeated: see `Model`.
    """

    name: str
    capability: Capability
    open: Callable[[PreparedModel], Session]
    control: Callable[[PreparedModel], Session] | None = None
    decoder: Callable[[PreTrainedModel], LeanDecoder | CompiledDecoder] | None = None
    most_repeated: int = 0

    def on(self, model: PreparedModel) -> PreparedModel:
        """A copy of the model that opens sessions of this kind. Raises the errors of `decoder`."""
        return replace(model, kind=self, decoder=self.decoder and self.decoder(model.module))


@dataclass(frozen=True, eq=False)
class PreparedModel:
    """A model of transformers with the results of its self-check; sessions are opened on it.

    It never changes: changed weights need a new `PreparedModel`, and open sessions keep the old one.
    module: an `Outline` if the matrices stay in a file. config: the configuration of the text decoder.
    device: the device of input tokens and logits. vocab_size: the width of the logits. capability_reason: a
    sentence for the user that says what the model can score, and why. note: further facts, or "".
    """

    name: str
    module: PreTrainedModel
    config: PretrainedConfig
    device: torch.device
    dtype: torch.dtype
    vocab_size: int
    context_length: int
    kind: SessionKind
    decoder: LeanDecoder | CompiledDecoder | None = None
    capability_reason: str = ""
    note: str = ""

    @property
    def capability(self) -> Capability:
        """The shapes of drafts that sessions of this model can score: trees, sequences or single tokens."""
        return self.kind.capability

    @property
    def most_repeated(self) -> int:
        """The most accepted tokens that a forward pass must compute again; see `Model`."""
        return self.kind.most_repeated

    def session(self) -> Session:
        """A new session with an empty cache."""
        return self.kind.open(self)

    def check_room(self, position: int) -> None:
        """ValueError if a position lies beyond the model's context."""
        if position >= self.context_length:
            raise ValueError(f"{self.name} has a context of {self.context_length} tokens, which is full")
