"""A draft model that scores only a part of its target's ids, and uses the target's own embedding.

The draft scores the ids that the target uses most. All other ids have the logit -inf, so their q is zero. The
draft's input is the target's embedding times a small matrix. The target is in memory anyway, so the draft's
file holds neither an embedding nor output rows of rare ids.
"""

from __future__ import annotations

import json
import os
from functools import reduce
from pathlib import Path

import torch
import transformers
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from specdec.checks import cause_of
from specdec.models.hf import HFModel
from specdec.models.kernels.compiled import crew
from specdec.models.kernels.packing import round_matrices
from specdec.models.load import FOUR_BITS, PACKED, ROUNDED, checked_device, checked_dtype
from specdec.models.partial_head import PartialHead
from specdec.models.passed_checks import files_checksum

CONFIG, WEIGHTS = "partial.json", "model.safetensors"
"""The two files of a partial draft: its configuration, that of a Llama, and its weights."""
IDS, PROJECTION = "output_ids", "projection.weight"
"""Entries of the weights: the ids that the draft scores, int32, rising; and the matrix that makes its input
from the target's embedding, [width, target's width]."""

_TOGETHER = 192
"""The number of columns whose products are summed at once, in the order of torch on most processors."""


def partial_model(
    config: transformers.LlamaConfig, weights: dict[str, Tensor], embedding: Tensor, dtype: torch.dtype
) -> transformers.LlamaForCausalLM:
    """The draft with these weights. embedding: the target's embedding, [vocabulary, the target's width]."""
    projection, output_ids = weights.pop(PROJECTION), weights.pop(IDS).long()
    head = weights.pop("lm_head.weight")
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(config)
    rows = _projected(embedding, projection)
    weights = weights | {"model.embed_tokens.weight": rows}
    weights = {name: value.to(dtype) for name, value in weights.items()}
    model.lm_head = PartialHead(head.to(dtype), output_ids, len(embedding))
    model.load_state_dict(weights | {"lm_head.weight": model.lm_head.weight}, assign=True)
    # rotary angles are computed, not stored
    model.model.rotary_emb = type(model.model.rotary_emb)(config)
    return model.eval()


def _projected(embedding: Tensor, projection: Tensor) -> Tensor:
    """embedding [vocabulary, width] times the transposed projection [draft's width, width], float32.

    The compiled product is used if available, because the bits of torch's depend on the processor.
    """
    embedding, projection = embedding.float(), projection.float()
    if crew() is None:
        return embedding @ projection.T
    from specdec.models.kernels.product import product

    pieces = zip(embedding.split(_TOGETHER, 1), projection.split(_TOGETHER, 1), strict=True)
    return reduce(torch.add, (product(rows.contiguous(), columns, "float32") for rows, columns in pieces))


def is_partial(folder: Path) -> bool:
    """Whether a folder contains a draft that `load_partial` can load."""
    return os.path.isfile(folder / CONFIG)  # unlike `Path.is_file`, this accepts any text as a path


def load_partial(folder: Path, target: HFModel, device: str = "auto", dtype: str = "auto") -> HFModel:
    """The draft in a folder, for this target.

    device, dtype: as for `load_pair`; "auto", "packed" and "int4" mean the target's dtype.
    ValueError if the draft is broken, or was made for another target.
    """
    name = "/".join(folder.parts[-2:])
    try:
        config = transformers.LlamaConfig(**json.loads((folder / CONFIG).read_bytes()))
        weights = load_file(folder / WEIGHTS)
        embedding = target.embedding
        shape = config.vocab_size, weights[PROJECTION].shape[1]
        if tuple(embedding.shape) != shape:
            raise ValueError(
                f"it reads an embedding of {shape[0]:,} by {shape[1]:,} numbers, and this target's has "
                f"{embedding.shape[0]:,} by {embedding.shape[1]:,}"
            )
        chosen = target.dtype if dtype in ("auto", PACKED, FOUR_BITS) else checked_dtype(dtype)
        assert isinstance(chosen, torch.dtype)
        model = partial_model(config, weights, embedding, chosen)
        model.to(checked_device(device) or target.device)  # type: ignore[arg-type]  # a decorated method
        if dtype == ROUNDED:
            round_matrices(model)
        files = None
        if target.files is not None and dtype != ROUNDED:
            files = f"{target.files} {files_checksum(folder)}"
        return HFModel(model, name, files)
    except (OSError, ValueError, LookupError, RuntimeError, TypeError, SafetensorError) as error:
        cause = cause_of(error)
        raise ValueError(f"{name!r} can't draft for this target: {cause}") from error
