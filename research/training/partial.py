"""A trainable draft that reads its target's frozen embedding and scores its most used ids only."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers import LlamaForCausalLM

from research.training.llama import Shape, identity_model


class ProjectedEmbedding(nn.Module):
    """The target's embedding [vocabulary, its width] times a learned matrix. It is frozen and not saved."""

    embedding: Tensor

    def __init__(self, embedding: Tensor, width: int):
        super().__init__()
        self.register_buffer("embedding", embedding, persistent=False)
        self.projection = nn.Linear(embedding.shape[1], width, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        """Projected rows of these ids, [..., width]."""
        return self.projection(nn.functional.embedding(ids, self.embedding))


def partial_model(shape: Shape, embedding: Tensor, ids: Tensor, context: int, seed: int) -> LlamaForCausalLM:
    """An untrained draft that scores these ids only.

    embedding: the target's, [vocabulary, its width]. Input and output start from the principal directions of
    the embedding, and each block starts as the identity.
    """
    model = identity_model(shape, len(ids), context, seed, is_tied=False, end_id=None)
    embedding = embedding.float()
    some = embedding[ids] - embedding[ids].mean(0)
    directions = torch.linalg.svd(some, full_matrices=False).Vh[: shape.width]
    entry = ProjectedEmbedding(embedding, shape.width)
    model.model.embed_tokens = entry
    with torch.no_grad():
        spread = (some @ directions.T).std()
        entry.projection.weight.copy_(directions / spread)
        model.lm_head.weight.copy_(some @ directions.T / spread * 0.005)
    return model
