"""openvino-genai's pipeline on converted models, called like our own decoding."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

_ALL = (1 << 64) - 1


class Pipeline:
    """openvino-genai on the converted model of a folder, with a draft from another folder if one is named.

    It computes on one thread. precision: "f32" or "bf16". Prefixes are not cached: with them openvino-genai
    2026.4 mostly ends the first sampled text with a draft with an error. Raises ModuleNotFoundError where it
    is not installed.
    """

    def __init__(self, folder: str | Path, draft: str | Path | None = None, precision: str = "f32"):
        self._openvino, genai = import_module("openvino"), import_module("openvino_genai")
        self._drafts = draft is not None
        scheduler = genai.SchedulerConfig()
        scheduler.enable_prefix_caching = False
        properties: dict[str, Any] = dict.fromkeys(
            ("INFERENCE_PRECISION_HINT", "KV_CACHE_PRECISION"), precision
        )
        properties["INFERENCE_NUM_THREADS"] = 1
        others: dict[str, Any] = {"scheduler_config": scheduler}
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
        batch: int = 1,
    ) -> list[int]:
        """Generate the ids of one text. k: drafted tokens in a round.

        batch: so many texts with these settings are decoded together, and the first is returned.
        """
        config = self._pipeline.get_generation_config()
        config.do_sample, config.temperature = temperature > 0, temperature or 1.0
        config.top_k, config.top_p = top_k or _ALL, top_p
        config.max_new_tokens, config.rng_seed = max_new_tokens, seed
        if self._drafts:
            config.num_assistant_tokens = k
        ids = self._openvino.Tensor(torch.tensor([list(prompt_ids)] * batch).numpy())
        return list(self._pipeline.generate(ids, config).tokens[0])
