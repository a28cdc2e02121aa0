"""Causal language models of transformers that score a tree of continuations in one forward pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import transformers

from specdec.models.base import Capability, Session
from specdec.models.kernels import CompiledDecoder
from specdec.models.lean import LeanDecoder
from specdec.models.prepare import prepare
from specdec.models.session_kinds import LEAN


class HFModel:
    """A causal language model of transformers. Its module stays in its mode, training or evaluation.

    Weights are packed and checked once. After a change of the module call `refresh`. An `HFModel` can be
    pickled if its module can; unpickling checks it again.

    Raises ValueError for an encoder-decoder and for a model that has no head or is not causal.

    files: the checksum (`passed_checks.files_checksum`) of the files that the module was read from; None if
    the module has changed since. A model whose checksum once passed the self-check here is not checked again.
    capability: the shapes of drafts that it can score. capability_reason: why, in a sentence for the user.
    note: further facts for the user, for example that longer texts were not checked, or "".
    decoder: our own forward pass on the module's weights; None if sessions call the module.
    vocab_size: the width of its logits. device: the device of input tokens and logits.
    """

    config: transformers.PretrainedConfig
    device: torch.device
    dtype: torch.dtype
    vocab_size: int
    context_length: int
    decoder: LeanDecoder | CompiledDecoder | None
    capability: Capability
    capability_reason: str
    most_repeated: int
    note: str

    def __init__(
        self, model: transformers.PreTrainedModel, name: str | None = None, files: str | None = None
    ):
        if getattr(model.config, "is_encoder_decoder", False):
            raise ValueError(f"{type(model).__name__} is an encoder-decoder, not a causal language model")
        self.module = model
        self.name = name or getattr(model.config, "name_or_path", "") or type(model).__name__
        self.files = files
        self._prepared = prepare(model, self.name, files)

    def __getattr__(self, name: str) -> Any:
        if name == "module" or name.startswith("_"):  # not set yet while an object is copied or unpickled
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self._prepared, name)

    def __reduce__(self) -> tuple[Callable[..., HFModel], tuple]:
        return HFModel, (self.module, self.name)  # another process packs the weights again

    @property
    def generation_config(self) -> Any:
        """The module's settings for generation; None if it has none."""
        return getattr(self._prepared.module, "generation_config", None)

    @property
    def embedding(self) -> torch.Tensor:
        """The matrix of the input embedding, [ids, width], on the CPU."""
        layer: Any = self.module.get_input_embeddings()
        return layer.weight.detach().cpu()

    def session(self) -> Session:
        """A new session with an empty cache, which grows with its tokens."""
        return self._prepared.session()

    @property
    def numbers(self) -> str:
        """The types of the numbers in matrix products: "float32", or "Q4_K, Q6_K weights, int8 inputs"."""
        decoder = self.decoder
        plain = str(self.dtype).removeprefix("torch.")
        return decoder.rounded if isinstance(decoder, CompiledDecoder) else plain

    @property
    def arithmetic(self) -> str:
        """A description of how logits are computed.

        On one machine, equal weights and an equal description give equal logits, bit for bit. With CUDA
        graphs, the last bits also depend on the other texts in the same forward pass.
        """
        if isinstance(self.decoder, CompiledDecoder):
            return f"compiled forward, {self.numbers}, float32 sums, cpu"
        parts = ["transformers' forward" if self.decoder is None else "lean forward"]
        if self.decoder is not None:
            parts += ["packed"] * self.decoder.packed + ["CUDA graphs"] * (self.decoder.graphs is not None)
        return ", ".join([*parts, self.numbers, self.device.type])

    def to(self, device: str | torch.device) -> HFModel:
        """Moves the model to another device without repeating the self-check.

        Use this for a GPU that is available only during a run, after the self-check on another device.
        """
        self.module.to(device)  # type: ignore[arg-type]  # transformers' decorator hides a method
        moved = replace(self._prepared, device=torch.device(device))
        if moved.decoder is not None:  # no graphs: a capture takes longer than graphs save in one run
            moved = replace(moved, kind=LEAN, decoder=LeanDecoder(self.module))
        self._prepared = moved
        return self

    def refresh(self) -> None:
        """Packs and checks the module again, after a change of its weights, dtype, device, parts or hooks.

        Open sessions must end first. ValueError if the module can't be run any more, or has another
        vocabulary size; then make a new `HFModel`.
        """
        prepared = prepare(self.module, self.name)
        if prepared.vocab_size != self.vocab_size:
            raise ValueError(
                f"{self.name} scored {self.vocab_size:,} tokens when it was wrapped, and scores "
                f"{prepared.vocab_size:,} now: wrap it again"
            )
        self._prepared = prepared
