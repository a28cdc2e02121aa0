"""Checks that a model's weights are usable numbers, and switches the model to evaluation mode for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import transformers
from torch import Tensor, nn


def check_sound(module: transformers.PreTrainedModel) -> None:
    """ValueError if a weight is NaN or infinite, or if an embedding matrix is all zero."""
    kind = type(module).__name__
    for name, weight in module.named_parameters():
        if not _is_finite(weight):
            raise ValueError(f"{kind} has weights that are not numbers: {name} holds NaN or infinity")
    for name, part in (("input", module.get_input_embeddings()), ("output", module.get_output_embeddings())):
        matrix = getattr(part, "weight", None)
        if isinstance(matrix, Tensor) and not matrix.is_meta and not matrix.detach().any():
            raise ValueError(f"{kind} has weights that are all zero: those of its {name} embedding")


def _is_finite(weight: Tensor) -> bool:
    if weight.is_meta or not weight.is_floating_point() or weight.itemsize < 2:
        return True  # offloaded or quantised weights are not checked
    # A finite sum is the fastest proof. In float16 finite weights can have an infinite sum.
    if weight.detach().sum().isfinite():
        return True
    return bool(torch.stack(torch.aminmax(weight.detach())).isfinite().all())


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Sets evaluation mode inside the block. Parts that were in training mode return to it at the end."""
    training = [part for part in module.modules() if part.training] if module.training else []
    for part in training:
        part.training = False
    try:
        yield
    finally:
        for part in training:
            part.training = True
