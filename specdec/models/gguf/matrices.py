"""The matrices of a model in the blocks of the compiled forward, and their values in float32."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from specdec.models.gguf.fields import rows_of
from specdec.models.kernels.layout import LANES, QUANTISED
from specdec.models.kernels.quantised import chosen_outputs, fields_of

EMBEDDING = "model.embed_tokens.weight"


class PackedMatrices:
    """The matrices of a model as they lie in a file, by transformers' names.

    tensors: the blocks of each matrix, as in `Packed`; the rows of the embedding, as in a GGUF file; norms
    and biases, in float32. kinds: the kind of each matrix; the GGUF type of the embedding's rows.
    """

    def __init__(self, tensors: Mapping[str, Tensor], kinds: Mapping[str, str]):
        self.tensors, self.kinds = tensors, kinds

    @property
    def read_bytes(self) -> int:
        """Bytes of weights that a forward reads: all but the rows of the embedding."""
        return sum(tensor.nbytes for name, tensor in self.tensors.items() if name != EMBEDDING)

    def small(self) -> dict[str, Tensor]:
        """Norms and biases."""
        return {name: tensor for name, tensor in self.tensors.items() if name not in self.kinds}

    def embedded(self, token_ids: Tensor) -> Tensor:
        """The embeddings of tokens, float32 [n, width]."""
        return torch.from_numpy(rows_of(self.tensors[EMBEDDING][token_ids].numpy(), self.kinds[EMBEDDING]))

    def with_rows(self, name: str, ids: Tensor) -> PackedMatrices:
        """The same matrices, one of them with only these outputs, in this order, padded to whole blocks."""
        blocks, kind = self.tensors[name], self.kinds[name]
        ids = torch.nn.functional.pad(ids[None], (0, -len(ids) % LANES), mode="replicate")[0]
        if kind in QUANTISED:
            rows = torch.from_numpy(chosen_outputs(blocks.numpy(), kind, ids.numpy()))
        else:
            rows = blocks[ids // LANES, :, ids % LANES].unflatten(0, (-1, LANES)).transpose(1, 2).contiguous()
        return PackedMatrices({**self.tensors, name: rows}, self.kinds)

    def values(self, name: str, first: int = 0, end: int | None = None) -> Tensor:
        """The numbers of a matrix, float32 [outputs, inputs], or of its blocks from `first` to `end`.

        Outputs are padded to whole blocks.
        """
        blocks, kind = self.tensors[name][first:end], self.kinds[name]
        if kind in QUANTISED:
            return torch.from_numpy(fields_of(blocks.numpy(), kind).values(kind))
        return blocks.float().transpose(1, 2).reshape(len(blocks) * LANES, -1)
