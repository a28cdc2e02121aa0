"""The arguments of transformers' `generate`, and those that are refused.

If `custom_generate` is a callable, transformers (5.24) drops its own arguments `assistant_model`, `streamer`,
`tokenizer` and `assistant_tokenizer`, although it needs the tokenizer for stop strings itself. After
`hand_over`, transformers keeps these arguments, and also passes them to our callable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import GenerationConfig
from transformers.generation.utils import GenerationMixin

ONLY: dict[str, tuple[Any, ...]] = {
    "num_beams": (None, 1),
    "num_beam_groups": (None, 1),
    "constraints": (None,),
    "force_words_ids": (None,),
    "penalty_alpha": (None,),
    "dola_layers": (None,),
    "diversity_penalty": (None, 0.0),
    "low_memory": (None, False),
    "use_mtp": (None, False),
    "is_assistant": (None, False),
    "speculation_type": (None,),
    "assistant_early_exit": (None,),
    "assistant_ensemble_weight": (None,),
    "assistant_confidence_threshold": (None, 0.0, 0.4),
    "num_assistant_tokens_schedule": (None, "constant"),
    "max_matching_ngram_size": (None,),
    "assistant_lookbehind": (None, 10),
    "target_lookbehind": (None, 10),
    "output_attentions": (None, False),
    "output_hidden_states": (None, False),
    "use_cache": (None, True),
    "cache_implementation": (None, "dynamic"),
    "cache_config": (None,),
    "max_cache_len": (None,),
    "prefill_chunk_size": (None,),
    "compile_config": (None,),
    "token_healing": (None, False),
}
"""Entries of a generation configuration that decoding does not support, with the values that turn each off.
transformers' defaults are among these values. ARGUMENTS.md lists all arguments."""

UNASKED_TOKENS = (None, 20)
"""Values of num_assistant_tokens that the user did not set: 20 is transformers' default."""


def hand_over(own: Callable[..., Any]) -> None:
    """Make `generate` pass on all its arguments to the callable `own`, or to a partial of it."""
    extract = GenerationMixin._extract_generation_mode_kwargs

    @wraps(extract)
    def extracted(
        self: Any, custom_generate: Any, kwargs: dict[str, Any], *others: Any, **named: Any
    ) -> dict[str, Any]:
        function = custom_generate
        while isinstance(function, partial):
            function = function.func
        if function is not own:
            return extract(self, custom_generate, kwargs, *others, **named)
        usual = extract(self, None, kwargs, *others, **named)
        return usual | extract(self, custom_generate, kwargs, *others, **named)

    GenerationMixin._extract_generation_mode_kwargs = extracted  # type: ignore[method-assign]


def check_supported(config: GenerationConfig, model_kwargs: Mapping[str, Any], synced_gpus: bool) -> None:
    """ValueError names the first argument of `generate` whose value specdec does not support."""
    for name, allowed in ONLY.items():
        value = getattr(config, name, None)
        if not any(value is each or value == each for each in allowed):
            raise ValueError(f"{name} = {value!r:.60} is not supported by specdec.custom_generate")
    if synced_gpus:
        raise ValueError("synced_gpus = True is not supported by specdec.custom_generate")
    _check_model_kwargs(model_kwargs)


def _check_model_kwargs(model_kwargs: Mapping[str, Any]) -> None:
    prepared = {"attention_mask", "position_ids", "use_cache", "logits_to_keep"}
    for name, value in model_kwargs.items():
        if name in ("cache", "past_key_values", "cache_params"):
            if value is not None and _is_given(value):
                raise ValueError(
                    f"{name} is not supported by specdec.custom_generate: it creates its own caches"
                )
        elif value is not None and name not in prepared:
            raise ValueError(f"{name} is not supported by specdec.custom_generate")
    if model_kwargs.get("logits_to_keep", 1) != 1:
        raise ValueError("logits_to_keep is not supported by specdec.custom_generate")


class Prompt(NamedTuple):
    """One prompt of a batch, as the token ids of its padding and of its text."""

    padding: list[int]
    text_ids: list[int]


def _is_given(cache: Any) -> bool:
    """Whether the user gave this cache. If the user gives none, transformers passes an empty cache."""
    if getattr(cache, "_is_user_defined", False):
        return True
    try:
        return cache.get_seq_length() > 0
    except ValueError:  # a cache of recurrent states has no length
        return False


def prompts_of(input_ids: Tensor, model_kwargs: Mapping[str, Any]) -> list[Prompt]:
    """The padding and the text of each prompt (row) in input_ids [rows, n].

    ValueError if the attention mask hides more than padding on the left, or if the position ids of a row do
    not count from 0.
    """
    if not input_ids.shape[1]:
        raise ValueError("inputs_embeds is not supported by specdec.custom_generate; give input_ids")
    mask = model_kwargs.get("attention_mask")
    mask = torch.ones_like(input_ids) if mask is None else mask.to(input_ids.device)
    if mask.shape != input_ids.shape or not mask.any(-1).all() or (mask.long().diff(dim=-1) < 0).any():
        raise ValueError(
            "attention_mask hides more than padding on the left: set the tokenizer's padding_side = 'left'"
        )
    _check_positions(model_kwargs.get("position_ids"), mask.bool())
    starts = (mask == 0).sum(-1).tolist()
    rows = input_ids.tolist()
    return [Prompt(row[:start], row[start:]) for row, start in zip(rows, starts, strict=True)]


def _check_positions(position_ids: Tensor | None, mask: Tensor) -> None:
    if position_ids is None:
        return
    usual = mask.long().cumsum(-1) - 1
    positions = position_ids.to(mask.device).expand(*position_ids.shape[:-2], *mask.shape)
    if not ((positions == usual) | ~mask).all():
        raise ValueError("position_ids other than 0, 1, 2, ... are not supported by specdec.custom_generate")
