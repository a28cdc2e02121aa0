"""The self-check of a model whose weights stay in the few bits of its file.

Its logits are compared with those of transformers' own layers, which get the same weights as float32 numbers
and do not round their inputs. A matrix is unpacked piece by piece, so the comparison takes little memory. A
forward pass over a tree must then give the same bits as forward passes over each of its paths alone, and a
wrong mask must give different bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import torch
import transformers
from torch import Tensor, nn
from transformers import PreTrainedConfig

from specdec.models.base import PreparedModel
from specdec.models.kernels.layout import LANES
from specdec.models.memory import without_weights
from specdec.models.packed_file import PackedMatrices
from specdec.models.selfcheck import (
    PREFIX_LENGTH,
    SCRIPTS,
    Line,
    in_words,
    ordinary_tokens,
    relative_error,
    session_fault,
    tried,
)
from specdec.theory import total_variation

TOKENS = 24
"""The number of tokens whose logits are compared. They follow a prefix of one token."""
LARGEST_ERROR, LARGEST_VARIATION = 0.25, 0.1
"""The largest values that pass: of the logits' relative error, and of the distributions' mean total
variation. On the models that were measured, rounding gives less than a third of each: .02 and .02 for
Qwen2.5-Coder-0.5B, .07 and .02 for the 1.5B. A matrix in the wrong place gives more than both."""
_AT_ONCE = 1 << 20
"""The number of entries of a matrix that are unpacked at once. They fit into a processor's cache."""


def packed_fault(model: PreparedModel, matrices: PackedMatrices) -> str | None:
    """What is wrong with a model on a `PackedDecoder`, as the end of a sentence; None if it passes."""
    tokens = ordinary_tokens(model.module)

    def text_fault() -> str | None:
        want = exact_logits(model.module.config, matrices, tokens[: TOKENS + 1])[1:]
        session = model.session()
        session.prefill(tokens[:1])
        return deviation(session.forward(torch.tensor(tokens[1 : TOKENS + 1]), range(-1, TOKENS - 1)), want)

    fault = tried(text_fault)
    if isinstance(fault, Exception):
        return f"raises {in_words(fault)}"
    return fault or session_fault(model, _Paths(model, tokens), [(SCRIPTS["tree"], PREFIX_LENGTH)], limit=0.0)


def deviation(have: Tensor, want: Tensor) -> str | None:
    """How logits [n, vocabulary] differ from `want`, as the end of a sentence; None if they are near it."""
    error = relative_error(have, want)
    variation = total_variation(have.softmax(-1), want.softmax(-1)).mean().item()
    if error <= LARGEST_ERROR and variation <= LARGEST_VARIATION:
        return None
    return (
        f"gives logits that are off by {error:.2g} of their spread, and distributions that are off by "
        f"{variation:.2g} in total variation"
    )


class _Paths(dict[Line, Tensor]):
    """The model's logits [1, vocabulary] after a sequence of tokens (the key), computed without a tree."""

    def __init__(self, model: PreparedModel, tokens: list[int]):
        self._model, self.tokens = model, tokens

    def __missing__(self, line: Line) -> Tensor:
        session = self._model.session()
        session.prefill(line[:-1])
        self[line] = session.forward(torch.tensor(line[-1:]), [-1])
        return self[line]

    def last_rows(self, lines: Sequence[Line]) -> Tensor:
        """Logits [lines, vocabulary] of the token after each sequence of tokens."""
        return torch.cat([self[line] for line in lines])


@torch.inference_mode()
def exact_logits(config: PreTrainedConfig, matrices: PackedMatrices, token_ids: Sequence[int]) -> Tensor:
    """Logits [tokens, vocabulary] of a text in float32, by transformers' layers on unpacked weights."""
    model = skeleton(config, matrices)
    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        for name, part in model.named_modules():
            if isinstance(part, nn.Linear):
                vars(part)["forward"] = partial(_product, matrices, f"{name}.weight", part, pool)
        embedded = matrices.embedded(torch.tensor(token_ids))
        hidden = model.model(inputs_embeds=embedded[None], use_cache=False).last_hidden_state[0]
        return model.lm_head(hidden)


def _product(
    matrices: PackedMatrices, name: str, linear: nn.Linear, pool: ThreadPoolExecutor, x: Tensor
) -> Tensor:
    """The output of a linear layer for x [..., inputs]. Its matrix is unpacked piece by piece."""
    step = max(1, _AT_ONCE // LANES // x.shape[-1])

    def piece(first: int) -> Tensor:
        with torch.inference_mode():  # each thread must set the mode for itself
            return x @ matrices.values(name, first, first + step).T

    parts = pool.map(piece, range(0, len(matrices.tensors[name]), step))
    product = torch.cat(list(parts), -1)[..., : linear.weight.shape[0]]
    return product if linear.bias is None else product + linear.bias


def skeleton(config: PreTrainedConfig, matrices: PackedMatrices) -> transformers.PreTrainedModel:
    """A transformers model in evaluation mode with norms, biases and rotary angles, but no matrices."""
    model = without_weights(config).eval()
    model.load_state_dict(matrices.small(), strict=False, assign=True)
    # rotary angles are computed, not stored
    model.model.rotary_emb = type(model.model.rotary_emb)(model.config)
    return model
