"""The weights of a model in memory: whether they are sound, whether they have changed, and its mode.

Packed copies and the results of the self-check are valid for the weights that they were made from. `Weights`
describes weights in a fraction of a millisecond: shapes, addresses, torch's counters of changes in place, and
a few numbers of each tensor. The numbers are needed because torch does not count changes through `.data`, nor
changes of tensors made under `torch.inference_mode`.
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
_PLACES, _IN_A_ROW = 4, 4
"""Numbers of each tensor that are compared. They are at few places, because weights may lie in a mapped file:
the system brings in 64 KiB of it for each place that is read."""

_lock = threading.Lock()
_evaluated: dict[nn.Module, tuple[int, list[nn.Module]]] = {}
"""Modules in evaluation mode for the time of a call: the number of such calls, and the parts that were
training."""


@dataclass(frozen=True)
class Weights:
    """A short description of a module's weights, to notice changes. shapes, kinds (dtype and device): of each
    parameter. modules: of each part its type, its number of hooks and a forward that is its own. state:
    address and version of each parameter and buffer, and the numbers of parts that `lean` reads. sample: some
    numbers of each tensor on a CPU.
    """

    shapes: tuple
    kinds: tuple
    modules: tuple
    state: tuple
    sample: tuple[Tensor, ...]

    @classmethod
    @torch.inference_mode()
    def of(cls, module: nn.Module) -> Weights:
        """A description of the module's present weights."""
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
        """Whether some weights are on "meta" and loaded for each forward.

        Such weights always count as changed.
        """
        return any(device.type == "meta" for _, device in self.kinds)

    def same_kind(self, other: Weights) -> bool:
        """Whether the result of a self-check for these weights is valid for the others."""
        return (self.kinds, self.modules) == (other.kinds, other.modules)

    def same(self, other: Weights) -> bool:
        """Whether the weights are unchanged."""
        if (self.kinds, self.modules, self.state) != (other.kinds, other.modules, other.state):
            return False
        return all(torch.equal(a, b) for a, b in zip(self.sample, other.sample, strict=True))


def check_sound(module: PreTrainedModel) -> None:
    """ValueError where weights are NaN or infinite, or where an embedding matrix is all zero."""
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
    # A sum is the fastest test; in float16 a sum of finite weights can overflow.
    if weight.detach().sum().isfinite():
        return True
    return bool(torch.stack(torch.aminmax(weight.detach())).isfinite().all())


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Sets evaluation mode inside the block, and restores training mode afterwards. Threads may overlap."""
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
    """A copy of a few numbers: `_IN_A_ROW` of them at each of `_PLACES` places of the tensor."""
    flat = tensor.detach().flatten()  # a view of a contiguous tensor
    if len(flat) <= _PLACES * _IN_A_ROW:
        return flat.clone()
    apart = len(flat) // _PLACES
    return flat[: apart * _PLACES].view(_PLACES, apart)[:, :_IN_A_ROW].clone()
