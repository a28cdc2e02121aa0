"""Packs matrices for `tiles`, in the smallest type that holds all weights of a model exactly.

If a checkpoint was saved in half precision, its weights fit in half precision also when they are loaded as
float32, so only half the bytes must be read. Weights that `round_rows` rounded take one byte.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from specdec.models.kernels.layout import (
    DTYPES,
    IN_PAIRS,
    KINDS,
    LANES,
    PAIRS,
    PER_STEP,
    QUANTISED,
    UNROUNDED,
)

STEPS = 127
"""int8 weights are whole numbers from -`STEPS` to `STEPS`."""
_FEW_ROWS = 4


class Packed(NamedTuple):
    """A matrix in blocks of `LANES` outputs.

    weights: [blocks, steps, LANES, inputs of a step], or for a `layout.Quantised` type uint8 [blocks, units,
    bytes of a unit]. scales, bias: float32 [outputs], or None.
    """

    weights: Any
    scales: Tensor | None
    bias: Tensor | None

    @property
    def outputs(self) -> int:
        """The number of outputs, padded to whole blocks."""
        return len(self.weights) * LANES

    def record(self, kind: str, multiply: int) -> dict[str, int]:
        """The values of a `layout.MATRIX`. multiply: address of the compiled product for this type."""
        rounding = IN_PAIRS if kind == PAIRS else QUANTISED[kind].rounding if kind in QUANTISED else UNROUNDED
        return {
            **{name: 0 if part is None else part.data_ptr() for name, part in self._asdict().items()},
            "outputs": self.outputs,
            "multiply": multiply,
            "block_bytes": self.weights[0].nbytes,
            "steps": self.weights.shape[1],
            "rounding": rounding,
        }


def pack(weight: Tensor, bias: Tensor | None, kind: str) -> Packed:
    """Lay out a matrix [outputs, inputs] for the kernels, in a type that holds its numbers exactly. bias:
    [outputs], or None."""
    scales = None
    missing = -len(weight) % LANES
    if kind == "int8":
        scales = row_steps(weight)
        weight = (weight.float() / scales[:, None]).round().to(torch.int8)
        scales = pad(scales, (0, missing), value=1.0)
    weight = pad(weight.to(getattr(torch, DTYPES[kind])), (0, 0, 0, missing))
    per_step = PER_STEP[kind]
    blocks = weight.view(-1, LANES, weight.shape[1] // per_step, per_step).transpose(1, 2).contiguous()
    return Packed(blocks, scales, None if bias is None else pad(bias.float(), (0, missing)))


def kind_of(weights: list[Tensor]) -> str:
    """The name of the smallest type that holds every number of these matrices exactly."""
    return next(kind for kind in reversed(KINDS) if all(_holds(kind, weight) for weight in weights))


def _holds(kind: str, weight: Tensor) -> bool:
    # a few rows rule out most kinds, because comparing all rows of a large model takes seconds
    return _holds_rows(kind, weight[:_FEW_ROWS]) and _holds_rows(kind, weight)


def _holds_rows(kind: str, weight: Tensor) -> bool:
    if kind == "int8":
        steps = weight.float() / row_steps(weight)[:, None]
        return torch.equal(steps.round() * row_steps(weight)[:, None], weight.float())
    dtype = getattr(torch, kind)
    return weight.dtype == dtype or torch.equal(weight.to(dtype).float(), weight.float())


def row_steps(weight: Tensor) -> Tensor:
    """The scale of each row of a matrix that will be stored as int8, float32 [outputs]. Scales are values of
    bfloat16, so that an int8 weight times its scale is exact in float32."""
    largest = weight.float().abs().amax(1)
    return torch.where(largest > 0, (largest / STEPS).bfloat16().float(), 1.0)


def round_matrices(model: nn.Module) -> None:
    """Round the weights of all linear layers in place. A tied embedding is the same tensor, so it changes."""
    for module in model.modules():
        if isinstance(module, nn.Linear):
            round_rows(module.weight)


@torch.no_grad()
def round_rows(weight: Tensor) -> None:
    """Round a matrix [outputs, inputs] in place: a row's weights become int8 multiples of the row's step."""
    steps = row_steps(weight)[:, None]
    weight.copy_((weight.float() / steps).round().clamp_(-STEPS, STEPS) * steps)
