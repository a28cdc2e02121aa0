"""Decodes with mlx-lm as an engine of the audit, if it is installed."""

from collections.abc import Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from specdec import ModelPair
from specdec.exactness.audit.engines import Engine, installed
from specdec.exactness.audit.run import Counting, Sample


def mlx(pair: ModelPair, k: int) -> Sample:
    """A function that decodes with mlx-lm. k: drafted tokens per round; 0 drafts nothing."""
    array, generating, utils = map(import_module, ("mlx.core", "mlx_lm.generate", "mlx_lm.utils"))
    sampler = import_module("mlx_lm.sample_utils").make_sampler
    models: list[Any] = [pair.target, pair.draft] if k else [pair.target]
    with TemporaryDirectory() as place:
        for number, model in enumerate(models):
            folder = Path(place, str(number))
            model.module.save_pretrained(folder)
            models[number] = utils.load_model(folder)[0]
    step = generating.speculative_generate_step if k else generating.generate_step
    options = {"num_draft_tokens": k} if k else {}

    def sample(
        prompt_ids: Sequence[int], seed: int, max_new_tokens: int, heat: float, top_k: int, top_p: float
    ) -> Sequence[int]:
        array.random.seed(seed)
        options["sampler"] = sampler(heat, top_p, top_k=top_k)
        steps = list(step(array.array(list(prompt_ids)), *models, max_tokens=max_new_tokens, **options))
        counting.calls += sum(not (k and drafted) for *_, drafted in steps)
        return [int(token) for token, *_ in steps]

    counting = Counting(sample)
    return counting


_DRAFT = "a sampled draft is accepted where it is the target's sample"
ENGINES = {
    name: Engine(rule, partial(mlx, k=k), installed("mlx", "mlx-lm"))
    for name, rule, k in (("mlx-lm", "plain sampling", 0), ("mlx-lm-draft", _DRAFT, 3))
}
