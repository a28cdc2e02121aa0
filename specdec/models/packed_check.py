"""The self-check of a model whose weights stay in the few bits of its file.

Its logits are compared with those of the same weights as float32 numbers, computed by transformers' own
layers without any rounding of their inputs. One layer at a time is unpacked, so the comparison takes little
memory. A forward in a tree must then give the bits that each of its paths gives alone, and a wrong mask must
give others.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel

from specdec.models.base import PreparedModel
from specdec.models.gguf.matrices import PackedMatrices
from specdec.models.memory import without_weights
from specdec.models.selfcheck import (
    PREFIX_LENGTH,
    SCRIPTS,
    UNPREFIXED,
    Line,
    ordinary_tokens,
    relative_error,
    reraise_out_of_memory,
    session_fault,
)

TOKENS = 24
"""Tokens that are compared with the exact model, after one that is not."""
LARGEST_ERROR, LARGEST_VARIATION = 0.25, 0.1
"""Relative error of the logits, and mean total variation of the distributions, that pass. On the models that
were measured, rounding gives less than a third of either: .02 and .02 for Qwen2.5-Coder-0.5B, .07 and .02 for
the 1.5B. Matrices in a wrong place give more than both."""
_BLOCKS = 512
"""Blocks of the output matrix that are unpacked at once."""


def packed_fault(model: PreparedModel, matrices: PackedMatrices) -> str | None:
    """The fault of a model on a `PackedDecoder`, as the end of a sentence; None if it passes."""
    tokens = ordinary_tokens(model.module)
    try:
        want = exact_logits(model.module.config, matrices, tokens[: TOKENS + 1])[1:]
        session = model.session()
        session.prefill(tokens[:1])
        have = session.forward(torch.tensor(tokens[1 : TOKENS + 1]), range(-1, TOKENS - 1))
    except Exception as error:
        reraise_out_of_memory(error)
        return f"raises {type(error).__name__} ({error})"
    if fault := deviation(have, want):
        return fault
    scripts = (SCRIPTS["tree"], PREFIX_LENGTH), (UNPREFIXED["tree"], 0)
    return session_fault(model, _Paths(model, tokens), scripts, limit=0.0)


def deviation(have: Tensor, want: Tensor) -> str | None:
    """The fault of logits [n, vocabulary], as the end of a sentence; None if they are near the exact ones."""
    error = relative_error(have, want)
    variation = total_variation(have, want).mean().item()
    if error <= LARGEST_ERROR and variation <= LARGEST_VARIATION:
        return None
    return (
        f"gives logits that are off by {error:.2g} of their spread, and distributions that are off by "
        f"{variation:.2g} in total variation"
    )


def total_variation(have: Tensor, want: Tensor) -> Tensor:
    """[n], between the distributions of logits [n, vocabulary]."""
    return (have.softmax(-1) - want.softmax(-1)).abs().sum(-1) / 2


class _Paths:
    """The model's own logits on single texts, for `session_fault`."""

    def __init__(self, model: PreparedModel, tokens: list[int]):
        self._model, self.tokens = model, tokens

    def last_rows(self, lines: Sequence[Line]) -> Tensor:
        """Logits [lines, vocabulary] after each line."""
        return torch.cat([self._last_row(line) for line in lines])

    def _last_row(self, line: Line) -> Tensor:
        session = self._model.session()
        session.prefill(line[:-1])
        return session.forward(torch.tensor(line[-1:]), [-1])


@torch.inference_mode()
def exact_logits(config: PreTrainedConfig, matrices: PackedMatrices, token_ids: Sequence[int]) -> Tensor:
    """Logits [tokens, vocabulary] of a text, in float32, by transformers' layers on unpacked weights."""
    model = skeleton(config, matrices)
    for name, layer in model.named_modules():
        if name.startswith("model.layers.") and name.count(".") == 2:
            layer.register_forward_pre_hook(lambda layer, _, name=name: _fill(layer, name, matrices))
            layer.register_forward_hook(lambda layer, *_: _empty(layer))
    embedded = matrices.embedded(torch.tensor(token_ids))
    hidden = model.model(inputs_embeds=embedded[None], use_cache=False).last_hidden_state[0]
    blocks = len(matrices.tensors["lm_head.weight"])
    parts = [
        hidden @ matrices.values("lm_head.weight", first, first + _BLOCKS).T
        for first in range(0, blocks, _BLOCKS)
    ]
    return torch.cat(parts, 1)[:, : model.lm_head.weight.shape[0]]


def skeleton(config: PreTrainedConfig, matrices: PackedMatrices) -> PreTrainedModel:
    """A model in evaluation mode with its norms, biases and rotary angles, but without matrices."""
    model = without_weights(config).eval()
    model.load_state_dict(matrices.small(), strict=False, assign=True)
    # rotary angles are computed, not stored
    model.model.rotary_emb = type(model.model.rotary_emb)(model.config)
    return model


def _fill(layer: nn.Module, name: str, matrices: PackedMatrices) -> None:
    linears = [(part, module) for part, module in layer.named_modules() if isinstance(module, nn.Linear)]
    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        unpacked = pool.map(lambda linear: matrices.values(f"{name}.{linear[0]}.weight"), linears)
        for (_, linear), values in zip(linears, unpacked, strict=True):
            linear.weight = nn.Parameter(values[: linear.weight.shape[0]], requires_grad=False)


def _empty(layer: nn.Module) -> None:
    for linear in layer.modules():
        if isinstance(linear, nn.Linear):
            linear.weight = nn.Parameter(linear.weight.to("meta"), requires_grad=False)
