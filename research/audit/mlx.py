"""Decodes with mlx-lm as an engine of the audit, if it is installed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from specdec.exactness.audit.engines import Engine, installed
from specdec.exactness.audit.run import Counting, Sample
from specdec.pair import ModelPair


def mlx(pair: ModelPair, drafts: bool, k: int = 3) -> Sample:
    """A function that decodes with mlx-lm. drafts: whether the pair's draft model drafts k tokens a round."""
    array, generating, utils = map(import_module, ("mlx.core", "mlx_lm.generate", "mlx_lm.utils"))
    sampler = import_module("mlx_lm.sample_utils").make_sampler

    def loaded(model: Any) -> Any:
        with TemporaryDirectory() as place:
            model.module.save_pretrained(place)
            return utils.load_model(Path(place))[0]

    models = [loaded(model) for model in ((pair.target, pair.draft) if drafts else (pair.target,))]
    step = generating.speculative_generate_step if drafts else generating.generate_step
    options = {"num_draft_tokens": k} if drafts else {}

    def sample(prompt_ids: Sequence[int], seed: int, max_new_tokens: int, *sampling: float) -> Sequence[int]:
        array.random.seed(seed)
        temperature, top_k, top_p = sampling
        options["sampler"] = sampler(temperature, top_p, top_k=top_k)
        steps = list(step(array.array(list(prompt_ids)), *models, max_tokens=max_new_tokens, **options))
        counting.calls += sum(not (drafts and drafted) for *_, drafted in steps)
        return [int(token) for token, *_ in steps]

    counting = Counting(sample)
    return counting


_VERSIONS = installed("mlx", "mlx-lm")
ENGINES = {
    "mlx-lm": Engine("plain sampling", partial(mlx, drafts=False), _VERSIONS),
    "mlx-lm-draft": Engine(
        "a sampled draft is accepted where it is the target's sample", partial(mlx, drafts=True), _VERSIONS
    ),
}
