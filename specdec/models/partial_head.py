"""An output layer that scores only a part of the vocabulary."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
import transformers
from torch import Tensor, nn

from specdec.checks import integer, integers, whole


class PartialHead(nn.Linear):
    """An output layer that scores some ids; its logits [..., vocabulary] are -inf for all others.

    output_ids: these ids, int64, in rising order.
    """

    output_ids: Tensor

    def __init__(self, weight: Tensor, output_ids: Tensor, vocab_size: int):
        super().__init__(weight.shape[1], weight.shape[0], bias=False, device="meta")
        self.weight = nn.Parameter(weight, requires_grad=False)
        self.vocab_size = vocab_size
        self.register_buffer("output_ids", output_ids, persistent=False)

    def forward(self, hidden: Tensor) -> Tensor:
        """Logits [..., vocabulary] from hidden states [..., width]."""
        return spread(super().forward(hidden), self)


def chosen_ids(draft_ids: int | Sequence[int], vocab_size: int, ends: Iterable[int]) -> Tensor:
    """The ids of `load_pair(draft_ids=...)`, int64 in rising order; ValueError names a bad one.

    draft_ids: the ids, or a number n, which means the first n ids and those in `ends`. The first ids are the
    most frequent ones, because byte-pair tokenizers number their strings in the order of merging.
    """
    if integer(draft_ids) is not None:
        ids = {
            *range(whole("draft_ids", draft_ids, 2, vocab_size)),
            *(each for each in ends if each < vocab_size),
        }
    else:
        ids = {*integers("draft_ids", draft_ids)}
        if len(ids) < 2 or min(ids) < 0 or max(ids) >= vocab_size:
            limits = f"two or more ids from 0 to {vocab_size - 1:,}"
            raise ValueError(f"draft_ids = {draft_ids!r:.60} are not {limits}")
    return torch.tensor(sorted(ids))


def ends_of(model: transformers.PreTrainedModel) -> list[int]:
    """The ids that end a text, by the model's generation settings."""
    ends = getattr(model.generation_config, "eos_token_id", None)
    return [] if ends is None else [ends] if isinstance(ends, int) else [*ends]


def restrict(model: transformers.PreTrainedModel, output_ids: Tensor) -> None:
    """Make a model score only these ids. ValueError if its output is not a linear layer without bias."""
    head = model.get_output_embeddings()
    if type(head) is not nn.Linear or getattr(head, "bias", None) is not None:
        raise ValueError(f"draft_ids need an output layer without a bias, which {type(model).__name__} lacks")
    weight, output_ids = head.weight.detach(), output_ids.to(head.weight.device)
    model.set_output_embeddings(PartialHead(weight[output_ids], output_ids, len(weight)))


def spread(logits: Tensor, head: nn.Module) -> Tensor:
    """Logits over the whole vocabulary, made from logits [..., n] over the ids that `head` scores."""
    if not isinstance(head, PartialHead):
        return logits
    full = logits.new_full((*logits.shape[:-1], head.vocab_size), -torch.inf)
    full[..., head.output_ids] = logits
    return full
