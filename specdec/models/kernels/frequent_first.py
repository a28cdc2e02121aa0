"""A packed draft that scores frequent tokens first, and the others only where none of these stands out."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from specdec.models.kernels import layout as at
from specdec.models.kernels.packed_decoder import Matrices, PackedDecoder

FIRST = 1 << 15
"""Tokens that are scored first. Tokenizers of byte pairs number their strings in the order in which they were
merged, the most frequent first. Vocabularies of fewer than twice as many tokens are scored at once."""
SURE = 0.9
"""A token stands out if it has at least this probability among the first tokens."""


class FrequentFirst(PackedDecoder):
    """A `PackedDecoder` whose output matrix is read in two parts, the second only for rows that need it.

    Where one of the first tokens stands out, the logits of the other tokens are -inf. That is another q,
    which changes the speed of decoding and never its law. A row's logits do not depend on other rows.
    """

    def __init__(self, model: PreTrainedModel, matrices: Matrices):
        super().__init__(model, matrices)
        whole, kind, _ = self._matrix(self._output)
        parts = (whole.weights[: FIRST // at.LANES], whole.weights[FIRST // at.LANES :])
        packed = [whole._replace(weights=weights) for weights in parts]
        first, others = (self._records([(part, kind, part.outputs)], gated=False) for part in packed)
        self._others = self._plan.copy()
        self._others["layers"], self._others["head"] = 0, others
        self._plan["head"] = first

    @staticmethod
    def fits(output: nn.Module) -> bool:
        """Whether an output layer is read in two parts: an ordinary one with a large vocabulary."""
        if type(output) is not nn.Linear or getattr(output, "bias", None) is not None:
            return False
        return output.out_features >= 2 * FIRST

    @property
    def _columns(self) -> int:
        return FIRST

    def _logits(self, x: Tensor, logits: Tensor) -> Tensor:
        """The logits of the first tokens, and those of the others of each row in which none stands out."""
        full = logits.new_full((len(logits), super()._columns), -torch.inf)
        full[:, :FIRST] = logits
        unsure = (logits.amax(-1) - logits.logsumexp(-1) < math.log(SURE)).nonzero()[:, 0]
        if len(unsure):
            count, columns = len(unsure), super()._columns - FIRST
            table = np.zeros(0, dtype=at.ROW)  # no layer, no text
            full[unsure, FIRST:] = self._run(self._others, x[unsure], count, columns, table, 0)
        return full[:, : self.scored_ids]
