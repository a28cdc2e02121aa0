"""openvino-genai's pipeline on converted models, called like our own decoding."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import torch

PRECISIONS = {"float32": "f32", "bfloat16": "bf16"}
BACKENDS = ("SDPA", "PA")
"""Kinds of attention: over the cache of one text, or over pages, which drafting needs."""
_ALL = (1 << 64) - 1


class GeneratedText(NamedTuple):
    """A generated text. target_calls: forwards of the target."""

    token_ids: list[int]
    target_calls: int


class Pipeline:
    """openvino-genai on the converted model of a folder, with a draft from another folder if one is named.

    dtype: one of `PRECISIONS`, for products, keys and values. backend: one of `BACKENDS`; with a draft always
    PA.
    Prefixes are not cached: with them openvino-genai 2026.4 mostly ends the first sampled text with a draft
    with an error. Raises ModuleNotFoundError where it is not installed.
    """

    def __init__(
        self,
        folder: str | Path,
        draft: str | Path | None = None,
        *,
        threads: int = 1,
        dtype: str = "float32",
        backend: str = "PA",
    ):
        self._openvino, genai = import_module("openvino"), import_module("openvino_genai")
        self._drafts = draft is not None
        precision = PRECISIONS[dtype]
        properties: dict[str, Any] = {
            "INFERENCE_PRECISION_HINT": precision,
            "KV_CACHE_PRECISION": precision,
            "INFERENCE_NUM_THREADS": threads,
        }
        others: dict[str, Any] = {"ATTENTION_BACKEND": backend}
        if backend == "PA" or draft is not None:
            scheduler = genai.SchedulerConfig()
            scheduler.enable_prefix_caching = False
            others = {"scheduler_config": scheduler}
        if draft is not None:
            others["draft_model"] = genai.draft_model(str(draft), "CPU", **properties)
        self._pipeline = genai.LLMPipeline(str(folder), "CPU", **properties, **others)

    def generate(
        self,
        prompt_ids: Sequence[int],
        *,
        seed: int,
        max_new_tokens: int,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        k: int = 3,
        endless: bool = False,
    ) -> GeneratedText:
        """Generate one text. k: drafted tokens in a round. endless: do not stop at end-of-text tokens."""
        config = self._pipeline.get_generation_config()
        config.do_sample, config.temperature = temperature > 0, temperature or 1.0
        config.top_k, config.top_p = top_k or _ALL, top_p
        config.max_new_tokens, config.rng_seed, config.ignore_eos = max_new_tokens, seed, endless
        if self._drafts:
            config.num_assistant_tokens = k
        ids = self._openvino.Tensor(torch.tensor([list(prompt_ids)]).numpy())
        result = self._pipeline.generate(ids, config)
        tokens = list(result.tokens[0])
        if not self._drafts:
            return GeneratedText(tokens, len(tokens))
        return GeneratedText(tokens, len(tokens) - result.extended_perf_metrics.get_num_accepted_tokens())
