"""Decoders whose matrices lie in a file, packed for the compiled forward pass; types may differ by matrix."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from specdec.models.kernels import layout as at
from specdec.models.kernels.decoder import CompiledDecoder
from specdec.models.kernels.packing import Packed
from specdec.models.outline import Outline
from specdec.models.packed_file import EMBEDDING, PackedMatrices

FIRST = 1 << 15
"""The number of tokens that a `FrequentFirst` scores first. Tokenizers of byte pairs number their strings in
the order in which they were merged, the most frequent first. A vocabulary of less than twice this number is
scored as a whole."""
SURE = 0.9
"""A token stands out if it has at least this probability in a softmax over the first tokens only."""


class PackedDecoder(CompiledDecoder):
    """A `CompiledDecoder` whose matrices lie in a file. An `Outline` holds the model's other parts."""

    def __init__(self, model: Outline, matrices: PackedMatrices):
        self._names = {module: name for name, module in model.named_modules()}
        self.matrices = matrices
        self.kind = ", ".join(sorted({kind for name, kind in matrices.kinds.items() if name != EMBEDDING}))
        self._set_up(model)

    def _matrix(self, linear: nn.Linear) -> tuple[Packed, str, int]:
        name = f"{self._names[linear]}.weight"
        weights = self.matrices.tensors[name]
        outputs, bias = len(weights) * at.LANES, None
        if linear.bias is not None:
            bias = nn.functional.pad(linear.bias.detach(), (0, outputs - len(linear.bias)))
        packed = Packed(weights, None, bias)
        return packed, self.matrices.kinds[name], self._limit(linear, packed)

    def _embedded(self, token_ids: Tensor) -> Tensor:
        return self.matrices.embedded(token_ids)

    @property
    def rounded(self) -> str:
        """The types of the numbers in matrix products, in words."""
        return f"{self.kind} weights, int8 inputs"


class FrequentFirst(PackedDecoder):
    """A draft that scores frequent tokens first. It scores the others only if no frequent token stands out.

    If a frequent token stands out (`SURE`), rare tokens have the logit -inf. This changes q, and so the speed
    of decoding, but not the text's distribution. Each node of a draft tree is decided separately.
    """

    def __init__(self, model: Outline, matrices: PackedMatrices):
        super().__init__(model, matrices)
        head, kind, _ = self._matrix(self._output)
        parts = (head.weights[: FIRST // at.LANES], head.weights[FIRST // at.LANES :])
        packed = [head._replace(weights=weights) for weights in parts]
        first, remainder = (self._records([(part, kind, part.outputs)], gated=False) for part in packed)
        self._remainder = self._plan.copy()
        self._remainder["layers"], self._remainder["head"] = 0, remainder
        self._plan["head"] = first

    @staticmethod
    def fits(output: nn.Module) -> bool:
        """Whether an output layer fits: an ordinary linear layer without a bias, with a large vocabulary."""
        if type(output) is not nn.Linear or getattr(output, "bias", None) is not None:
            return False
        return output.out_features >= 2 * FIRST

    @property
    def _columns(self) -> int:
        return FIRST

    def _logits(self, x: Tensor, logits: Tensor) -> Tensor:
        """`logits` of the first tokens, extended by those of all others in rows where no token stands out."""
        full = logits.new_empty((len(logits), super()._columns))
        full[:, :FIRST], full[:, FIRST:] = logits, -torch.inf
        unsure = (logits.softmax(-1).amax(-1) < SURE).nonzero()[:, 0]
        if len(unsure):
            count, columns = len(unsure), super()._columns - FIRST
            table = np.zeros(0, dtype=at.ROW)  # no rows: this plan has no layers
            full[unsure, FIRST:] = self._run(self._remainder, x[unsure], count, columns, table, 0)
        return full[:, : self.scored_ids]
