"""An output layer over a part of the vocabulary."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class PartialHead(nn.Linear):
    """An output layer over some ids; logits [..., vocabulary] are -inf for all others.

    output_ids: int64, in rising order.
    """

    output_ids: Tensor

    def __init__(self, weight: Tensor, output_ids: Tensor, vocab_size: int):
        super().__init__(weight.shape[1], weight.shape[0], bias=False, device="meta")
        self.weight = nn.Parameter(weight, requires_grad=False)
        self.vocab_size = vocab_size
        self.register_buffer("output_ids", output_ids, persistent=False)

    def forward(self, hidden: Tensor) -> Tensor:
        """Logits of hidden states [..., width]."""
        return spread(super().forward(hidden), self)


def spread(logits: Tensor, head: nn.Module) -> Tensor:
    """Logits over the whole vocabulary, from logits [..., n] over the ids of an output layer."""
    if not isinstance(head, PartialHead):
        return logits
    full = logits.new_full((*logits.shape[:-1], head.vocab_size), -torch.inf)
    full[..., head.output_ids] = logits
    return full


def linear_of(head: nn.Linear) -> nn.Linear:
    """The output layer as an ordinary linear layer; `spread` takes its logits."""
    if not isinstance(head, PartialHead):
        return head
    linear = nn.Linear(head.weight.shape[1], head.weight.shape[0], bias=False, device="meta")
    linear.weight = head.weight
    return linear
