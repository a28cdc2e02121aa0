"""The topologies a visitor can choose by name, measured ones included."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import specdec
from specdec.auto import TRIAL_TOKENS, trial_topology
from specdec.stats import acceptance_by_index

NAMES = ("simple", "sequence", "batch", "specinfer", "optimal", "auto")
WITHOUT_K = ("simple", "auto")
MEASURED = ("optimal", "auto")

_acceptance: WeakKeyDictionary[Any, dict[tuple, list[float]]] = WeakKeyDictionary()


def topology(pair: Any, name: str, k: int, prompt: str, **sampling: Any) -> Any:
    """The topology of that name for `specdec.stream`; ValueError lists the names there are.

    sampling: method, temperature, top_k and top_p, on which a measured acceptance depends.
    """
    if name not in NAMES:
        raise ValueError(f"topology = {name!r} is none of {', '.join(NAMES)}")
    if name == "auto":
        return name
    if name == "simple":
        return specdec.topology.simple()
    if name == "optimal":
        return specdec.optimal_topology(acceptance(pair, prompt, **sampling), k)
    return getattr(specdec.topology, name)(k)


def acceptance(pair: Any, prompt: str, **sampling: Any) -> list[float]:
    """Acceptance by child index of this pair with this sampling, from one trial run, then remembered."""
    known = _acceptance.setdefault(pair, {})
    key = tuple(sorted(sampling.items()))
    if key not in known:
        # A run of its own, whose length and seed are not the visitor's: the tree must not depend on them.
        trial = specdec.generate(
            pair, prompt, topology=trial_topology(pair), max_new_tokens=TRIAL_TOKENS, seed=0, **sampling
        )
        known[key] = [index.rate for index in acceptance_by_index(trial.rounds)]
    return known[key]
