"""Decoded texts that must be equal: of ERSD and of plain decoding, of a batch and of its runs alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import specdec
from specdec import Generation, ModelPair, Topology


def ersd_as_plain(
    pair: ModelPair,
    prompt: str | Sequence[int],
    trees: Iterable[Topology | str | None],
    seeds: Iterable[int] = (0,),
    drafter: Any = "model",
    **settings: Any,
) -> list[Generation]:
    """The runs of ERSD with each seed on each tree. Each text must be that of plain decoding."""
    trees, runs = list(trees), []
    for seed in seeds:
        plain = specdec.generate(pair, prompt, method="ar", seed=seed, **settings)
        for tree in trees:
            run = specdec.generate(pair, prompt, topology=tree, drafter=drafter, seed=seed, **settings)
            assert (run.token_ids, run.text) == (plain.token_ids, plain.text), (seed, tree)
            runs.append(run)
    return runs


def together_as_alone(
    pair: ModelPair,
    prompts: Sequence[str | Sequence[int]],
    seeds: Sequence[int],
    at_once: int | None = None,
    **settings: Any,
) -> list[Generation]:
    """The runs of a batch. Each text must be that of its run alone. A setting is one value, or a list of one
    for each prompt."""
    limit = {} if at_once is None else {"at_once": at_once}
    together = specdec.generate_many(pair, prompts, seeds=seeds, **limit, **settings)
    for number, (prompt, seed, run) in enumerate(zip(prompts, seeds, together, strict=True)):
        own = {name: value[number] if isinstance(value, list) else value for name, value in settings.items()}
        assert run.token_ids == specdec.generate(pair, prompt, seed=seed, **own).token_ids, number
    return together


def endless(pair: ModelPair) -> ModelPair:
    """The pair, whose texts no token ends from now on."""
    pair.eos_ids = frozenset()
    return pair
