"""Decodes with openvino-genai as an engine of the audit, if it is installed."""

from collections.abc import Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from research.audit.openvino_graph import convert_pair
from specdec import ModelPair
from specdec.exactness.audit.engines import Engine, installed
from specdec.exactness.audit.run import Sample

_ALL = (1 << 64) - 1


def engines(batch: int = 1) -> dict[str, Engine]:
    """The engines by name. batch: how many texts are decoded at once."""

    def start(name: str, pair: ModelPair) -> Sample:
        drafts, dtype = name.endswith("-draft"), getattr(getattr(pair.target, "module", None), "dtype", None)
        if drafts and pair.draft is None:
            raise ValueError(f"{name}: the pair has no draft")
        with TemporaryDirectory() as place:
            target, *draft_folders = convert_pair(pair, Path(place))
            precision = "bf16" if dtype == torch.bfloat16 else "f32"
            return pipeline(target, draft_folders[0] if drafts else None, precision, batch=batch)

    rules = {"openvino": "plain sampling", "openvino-draft": "min(1, p/q), residual"}
    versions = installed("openvino", "openvino-genai")
    return {name: Engine(rule, partial(start, name), versions) for name, rule in rules.items()}


def pipeline(
    folder: str | Path, draft: str | Path | None = None, precision: str = "f32", k: int = 3, batch: int = 1
) -> Sample:
    """A function that decodes with openvino-genai on one thread. folder, draft: folders of converted models.

    precision: "f32" or "bf16". k: drafted tokens per round. batch: how many equal requests are decoded
    together; the first text is returned. Prefixes are not cached, because with a draft and cached prefixes
    openvino-genai 2026.4 mostly fails at the first sampled text. ModuleNotFoundError if openvino-genai is not
    installed.
    """
    openvino, genai = import_module("openvino"), import_module("openvino_genai")
    scheduler = genai.SchedulerConfig()
    scheduler.enable_prefix_caching = False
    properties: dict[str, Any] = {"INFERENCE_PRECISION_HINT": precision, "KV_CACHE_PRECISION": precision}
    properties["INFERENCE_NUM_THREADS"] = 1
    options: dict[str, Any] = {"scheduler_config": scheduler}
    if draft is not None:
        options["draft_model"] = genai.draft_model(str(draft), "CPU", **properties)
    engine = genai.LLMPipeline(str(folder), "CPU", **properties, **options)

    def sample(
        prompt_ids: Sequence[int], seed: int, max_new_tokens: int, heat: float, top_k: int, top_p: float
    ) -> list[int]:
        config = engine.get_generation_config()
        config.do_sample, config.temperature = heat > 0, heat or 1.0
        config.top_k, config.top_p = top_k or _ALL, top_p
        config.max_new_tokens, config.rng_seed = max_new_tokens, seed
        if draft is not None:
            config.num_assistant_tokens = k
        ids = openvino.Tensor(torch.tensor([list(prompt_ids)] * batch).numpy())
        return list(engine.generate(ids, config).tokens[0])

    return sample
