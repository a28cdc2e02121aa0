"""transformers' own decoding as an engine of the audit: plain, and with the pair's draft."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch

from specdec.exactness.audit.run import Counting, Sample, named
from specdec.models.other_tokenizer import OtherTokenizerModel

if TYPE_CHECKING:
    from specdec.pair import ModelPair


def transformers(pair: ModelPair, **options: Any) -> Sample:
    """transformers' `generate` of the target, with options such as `assistant_model` or `custom_generate`.

    The seed sets torch's generator, whose state is restored after each text. ValueError if the target is not
    a model of transformers.
    """
    model: Any = getattr(pair.target, "module", None)
    if model is None:
        raise ValueError(f"{pair.target.name} is not a model of transformers")

    def sample(prompt_ids: Sequence[int], seed: int, max_new_tokens: int, *sampling: float) -> Sequence[int]:
        ids = torch.tensor([list(prompt_ids)], device=model.device)
        settings = {"do_sample": True} | named(sampling) if sampling[0] > 0 else {"do_sample": False}
        settings |= {"max_new_tokens": max_new_tokens, "pad_token_id": 0}
        with torch.inference_mode(), torch.random.fork_rng():
            torch.manual_seed(seed)
            hook = model.register_forward_hook(count)
            try:
                output = model.generate(ids, attention_mask=torch.ones_like(ids), **settings, **options)
            finally:
                hook.remove()
        return output[0, ids.shape[1] :].tolist()

    def count(module: Any, *_: Any) -> None:
        # a draft that exits early is the same model with fewer layers
        if module.config.get_text_config().num_hidden_layers == layers:
            counting.calls += 1

    counting, layers = Counting(sample), model.config.get_text_config().num_hidden_layers
    return counting


def assisted(pair: ModelPair, k: int = 3) -> Sample:
    """transformers' assisted generation with k drafted tokens in every round. ValueError without a draft."""
    if getattr(pair.draft, "module", None) is None:
        raise ValueError("assisted generation needs a draft of transformers, but this pair has none")
    arguments = assisting(pair)
    draft_exactly(arguments["assistant_model"], k)
    return transformers(pair, **arguments)


def assisting(pair: ModelPair) -> dict[str, Any]:
    """transformers' arguments for the pair's draft.

    A draft with another tokenizer is given as a copy, with both tokenizers, because transformers changes the
    draft's embedding and output matrix for sampling.
    """
    draft: Any = pair.drafting
    if not isinstance(draft, OtherTokenizerModel):
        return {"assistant_model": draft.module}
    tokenizers = {"tokenizer": pair.tokenizer, "assistant_tokenizer": draft.tokenizer}
    return {"assistant_model": _copied(draft.module)} | tokenizers


_copied = lru_cache(maxsize=1)(deepcopy)
"""Copies a model. The last copy is cached, so that all engines share the copy of one draft."""


def draft_exactly(draft: Any, k: int) -> None:
    """Sets a draft's generation config so that transformers drafts k tokens in every round."""
    config = draft.generation_config
    config.num_assistant_tokens, config.num_assistant_tokens_schedule = k, "constant"
    config.assistant_confidence_threshold = 0.0
