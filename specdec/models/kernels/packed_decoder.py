"""A decoder whose matrices lie in a file as the compiled forward reads them, each of a kind of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from torch import Tensor, nn
from transformers import PreTrainedModel

from specdec.models.kernels.decoder import CompiledDecoder
from specdec.models.kernels.layout import LANES
from specdec.models.kernels.packing import Packed
from specdec.models.lean import check_architecture

EMBEDDING = "model.embed_tokens.weight"


class Matrices(Protocol):
    """The matrices of a model, by transformers' names, and the kind of each."""

    tensors: Mapping[str, Tensor]
    kinds: Mapping[str, str]

    def embedded(self, token_ids: Tensor) -> Tensor:
        """float32 [n, width], rows of the embedding."""
        ...


class PackedDecoder(CompiledDecoder):
    """A `CompiledDecoder` on the matrices of a file.

    model: a Llama, Mistral, Qwen 2 or Qwen 3 without matrices, but with norms, biases and rotary angles.
    """

    def __init__(self, model: PreTrainedModel, matrices: Matrices):
        check_architecture(model)
        self._names = {module: name for name, module in model.named_modules()}
        self.matrices = matrices
        self.kind = ", ".join(sorted({kind for name, kind in matrices.kinds.items() if name != EMBEDDING}))
        self._set_up(model)

    def _product(self, linears: Sequence[nn.Linear], gated: bool = False) -> int:
        return self._records([self._matrix(linear) for linear in linears], gated)

    def _matrix(self, linear: nn.Linear) -> tuple[Packed, str, int]:
        """A linear layer's matrix, its kind, and the number of its sums that are handed on."""
        name = f"{self._names[linear]}.weight"
        weights = self.matrices.tensors[name]
        outputs, bias = len(weights) * LANES, None
        if linear.bias is not None:
            bias = nn.functional.pad(linear.bias.detach(), (0, outputs - len(linear.bias)))
        packed = Packed(weights, None, bias)
        limit = outputs if linear is self._output else linear.weight.shape[0]
        return packed, self.matrices.kinds[name], limit

    def _embedded(self, token_ids: Tensor) -> Tensor:
        return self.matrices.embedded(token_ids)

    @property
    def _rounds(self) -> bool:
        return True
