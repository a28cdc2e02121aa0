"""A model whose weights have few bits, from a GGUF file or by rounding. They are mapped into memory."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoConfig, GenerationConfig

from specdec.models import passed_checks
from specdec.models.base import PreparedModel
from specdec.models.cached_folders import LIST
from specdec.models.hf import HFModel
from specdec.models.kernels.compiled import crew
from specdec.models.long_context import long_context_check
from specdec.models.outline import Outline
from specdec.models.packed_check import packed_fault, skeleton
from specdec.models.packed_decoder import FrequentFirst, PackedDecoder
from specdec.models.packed_file import EMBEDDING, HEAD, PackedMatrices, read_packed
from specdec.models.partial_head import PartialHead, chosen_ids, ends_of
from specdec.models.prepare import TREES, explained_model
from specdec.models.selfcheck import explained
from specdec.models.session_kinds import COMPILED
from specdec.models.shrink import context_length


class PackedError(ValueError):
    """There is no compiled forward pass for packed weights, or its logits are too far from the exact ones."""


class PackedModel(HFModel):
    """A Llama, Mistral, Qwen 2 or Qwen 3 on a CPU. It reads the matrices that `packed_file` wrote.

    folder: the folder of that file. load_module: loads the model of transformers for the property `module`.
    output_ids: the only ids that it scores (see `draft_ids` of `load_pair`); None for all. Raises PackedError
    if the compiled forward pass is missing or fails the self-check.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        load_module: Callable[[], transformers.PreTrainedModel],
        output_ids: int | Sequence[int] | None = None,
    ):
        self.name, self.files = name, None
        self.folder, self._load_module, self._output_ids = folder, load_module, output_ids
        with explained(name), torch.inference_mode():
            self._prepared = _prepared(folder, name)
            if output_ids is not None:
                self._prepared = _scoring(self._prepared, output_ids)

    @cached_property
    def module(self) -> transformers.PreTrainedModel:  # type: ignore[override]  # made when it is asked for
        """The model of transformers in bfloat16, made when it is first used; decoding does not need it."""
        return self._load_module()

    @property
    def embedding(self) -> torch.Tensor:
        """The matrix of the input embedding, float32 [ids, width]."""
        return self.matrices.embedded(torch.arange(len(self.matrices.tensors[EMBEDDING])))

    @property
    def matrices(self) -> PackedMatrices:
        """The model's matrices, mapped into memory."""
        decoder = self._prepared.decoder
        assert isinstance(decoder, PackedDecoder)
        return decoder.matrices

    def __reduce__(self) -> tuple[Callable[..., PackedModel], tuple, bool]:  # type: ignore[override]
        arguments = self.folder, self.name, self._load_module, self._output_ids
        return PackedModel, arguments, isinstance(self.decoder, FrequentFirst)

    def __setstate__(self, frequent_first: bool) -> None:
        if frequent_first:
            self.score_frequent_first()

    def to(self, device: str | torch.device) -> HFModel:
        """Return the model itself if the device is a CPU; ValueError for other devices."""
        if torch.device(device).type != "cpu":
            raise ValueError(f"{self.name} is packed for a CPU; load it with dtype='bfloat16' for {device}")
        return self

    def refresh(self) -> None:
        """Does nothing: the weights lie in a file that does not change."""

    def score_frequent_first(self) -> None:
        """From now on, score a large vocabulary in two parts, as `FrequentFirst` does. Only for drafts."""
        outline: Any = self._prepared.module
        if FrequentFirst.fits(outline.lm_head):
            decoder = FrequentFirst(outline, self.matrices)
            self._prepared = replace(self._prepared, decoder=decoder)


def _scoring(model: PreparedModel, output_ids: int | Sequence[int]) -> PreparedModel:
    """A checked model, changed so that it scores only these ids."""
    assert isinstance(model.decoder, PackedDecoder)
    outline: Any = model.module
    ids = chosen_ids(output_ids, model.vocab_size, ends_of(outline))
    outline.lm_head = PartialHead(outline.lm_head.weight[ids], ids, model.vocab_size)
    return replace(model, decoder=PackedDecoder(outline, model.decoder.matrices.with_rows(HEAD, ids)))


def _prepared(folder: Path, name: str) -> PreparedModel:
    if crew() is None:
        raise PackedError(f"{name} has no compiled forward pass on this machine")
    matrices = read_packed(folder)
    config = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    outline: Any = Outline(config, matrices.small())
    outline.generation_config = GenerationConfig.from_pretrained(folder)
    decoder = PackedDecoder(outline, matrices)
    model = PreparedModel(
        *(name, outline, config, torch.device("cpu"), torch.float32, decoder.scored_ids),
        *(context_length(config), COMPILED, decoder),
    )
    model = explained_model(model, TREES)
    checks = passed_checks.folder_of(hashlib.sha256((folder / LIST).read_bytes()).hexdigest())
    if checks is not None and passed_checks.holds(checks, model):
        return model
    fault = long_context_check(skeleton(config, matrices)).fault(COMPILED) or packed_fault(model, matrices)
    if fault is not None:
        logging.warning("%s is not decoded in the bits of its file: in these bits it %s", name, fault)
        raise PackedError(f"{name} {fault}")
    if checks is not None:
        passed_checks.remember(checks, model)
    return model
