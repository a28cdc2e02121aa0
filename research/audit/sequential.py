"""Decodes with sequential-speculative-decoding as an engine of the audit, if it is installed."""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from importlib import import_module
from typing import Any

import torch

from specdec import ModelPair
from specdec.exactness.audit.engines import Engine, installed
from specdec.exactness.audit.run import Counting, Sample

_RULES = {  # by name: the verification rule, and the module and the function that apply it
    "standard": ("min(1, p/q), residual", "standard_sd", "standard_speculative_step"),
    "naive": ("hierarchical, of joint probabilities", "naive_hsd", "naive_hsd_step"),
    "capped": ("hierarchical, of capped joint probabilities", "capped_hsd", "capped_hsd_step"),
}


def sequential(module: str, function: str, pair: ModelPair, k: int = 3) -> Sample:
    """A function that decodes with the named function of a module of sequential-speculative-decoding.

    The package's only sampling setting is the temperature. Decoding raises ValueError for any other setting.
    """
    step = getattr(import_module(f"seqspecdecod.{module}"), function)
    models: tuple[Any, Any] = (pair.draft, pair.target)
    draft, target = (_remembering(model.module) for model in models)

    def counted(ids: torch.Tensor) -> Any:
        counting.calls += 1
        return target(ids)

    def sample(
        prompt_ids: Sequence[int], seed: int, max_new_tokens: int, heat: float, top_k: int, top_p: float
    ) -> Sequence[int]:
        if top_k or top_p < 1:
            raise ValueError("sequential-speculative-decoding has neither top-k nor top-p")
        ids, length = torch.tensor([list(prompt_ids)]), len(prompt_ids) + max_new_tokens
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            while ids.shape[1] < length:
                ids = step(draft, counted, ids, k, heat, heat)[0]
        return ids[0, len(prompt_ids) : length].tolist()

    counting = Counting(sample)
    return counting


def _remembering(module: Any) -> Callable[[torch.Tensor], Any]:
    """The model as a function of ids [1, length]. Results are cached, so that each text is computed once."""
    cached_module = lru_cache(maxsize=None)(lambda ids: module(torch.tensor([ids])))
    return lambda ids: cached_module(tuple(ids[0].tolist()))


ENGINES = {
    f"sequential-{name}": Engine(
        rule, partial(sequential, module, function), installed("sequential-speculative-decoding", "torch")
    )
    for name, (rule, module, function) in _RULES.items()
}
