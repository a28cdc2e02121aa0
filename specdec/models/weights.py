"""A model's weights as they lie in memory: whether they are sound, whether they have changed, and its mode.

Packed copies and the findings of the self-check hold for the weights that they were made from. `Weights` is a
glance at them that costs a fraction of a millisecond: shapes, places, torch's counters of changes in place,
and a few numbers of each, because not every change is counted (those through `.data` are not, nor any of
tensors made under `torch.inference_mode`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

_NUMBERS = ("variance_epsilon", "scaling", "attention_scaling")
_SAMPLE = 16
"""Numbers of a tensor that are looked at."""

_lock = threading.Lock()
_evaluated: dict[nn.Module, tuple[int, list[nn.Module]]] = {}
"""Modules that are in evaluation mode for us only: how many calls need it, and which parts were training."""


@dataclass(frozen=True)
class Weights:
    """A glance at a module's weights. shapes, kinds (dtype and device), state: of each tensor, in order.

    Of buffers the state alone, as some models change them in a forward, and of parts the numbers that `lean`
    reads. modules: what the parts are, how many hooks they have, and forwards that are theirs alone. sample:
    some numbers of each tensor, on its device.
    """

    shapes: tuple
    kinds: tuple
    modules: tuple
    state: tuple
    sample: tuple[Tensor, ...]

    @classmethod
    @torch.inference_mode()
    def of(cls, module: nn.Module) -> Weights:
        """The weights as they are now; numbers are looked at on a CPU only, where they may be packed."""
        tensors, parts = list(module.parameters()), list(module.modules())
        every = [*tensors, *module.buffers()]
        return cls(
            shapes=tuple(tensor.shape for tensor in tensors),
            kinds=tuple((tensor.dtype, tensor.device) for tensor in tensors),
            modules=tuple(
                (
                    type(part),
                    len(part._forward_hooks),
                    len(part._forward_pre_hooks),
                    vars(part).get("forward"),
                )
                for part in parts
            ),
            state=(
                *((tensor.data_ptr(), _version(tensor)) for tensor in every),
                *(vars(part).get(name) for part in parts for name in _NUMBERS),
            ),
            sample=tuple(_some(tensor) for tensor in every if tensor.device.type == "cpu"),
        )

    @property
    def offloaded(self) -> bool:
        """Whether some are elsewhere and come for a forward only: they never seem to be the same."""
        return any(device.type == "meta" for _, device in self.kinds)

    def same_kind(self, other: Weights) -> bool:
        """Whether what a self-check found for these holds for the others."""
        return (self.kinds, self.modules) == (other.kinds, other.modules)

    def same(self, other: Weights) -> bool:
        """Whether nothing has changed."""
        if (self.kinds, self.modules, self.state) != (other.kinds, other.modules, other.state):
            return False
        return all(torch.equal(a, b) for a, b in zip(self.sample, other.sample, strict=True))


def check_sound(module: PreTrainedModel) -> None:
    """Raise ValueError where weights are not numbers, or all zero where every logit depends on them."""
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
        return True  # offloaded, or quantised
    # a sum reads them fastest; in float16 it may itself be too large
    if weight.detach().sum().isfinite():
        return True
    return bool(torch.stack(torch.aminmax(weight.detach())).isfinite().all())


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Evaluation mode for a while; afterwards the parts that were training are again. Threads may overlap."""
    if not module.training and module not in _evaluated:
        yield
        return
    with _lock:
        count, training = _evaluated.get(module) or (0, [part for part in module.modules() if part.training])
        _evaluated[module] = count + 1, training
        _set_training(training, False)
    try:
        yield
    finally:
        with _lock:
            count, training = _evaluated.pop(module)
            if count > 1:
                _evaluated[module] = count - 1, training
            else:
                _set_training(training, True)


def _set_training(parts: list[nn.Module], training: bool) -> None:
    for part in parts:
        part.training = training


def _version(tensor: Tensor) -> int:
    return -1 if tensor.is_inference() else tensor._version


def _some(tensor: Tensor) -> Tensor:
    """A copy of a few numbers, spread over the whole."""
    flat = tensor.detach().reshape(-1) if tensor.is_contiguous() else tensor.detach().flatten()[:_SAMPLE]
    return flat[:: max(1, len(flat) // _SAMPLE)].clone()
