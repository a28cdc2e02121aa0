"""The topologies a visitor can choose by name, measured ones included."""

from __future__ import annotations

from typing import Any

import specdec

NAMES = ("simple", "sequence", "batch", "specinfer", "optimal", "auto")
WITHOUT_K = ("simple", "auto")
MEASURED = ("optimal", "auto")


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
        return specdec.optimal_topology(specdec.measure_acceptance(pair, prompt, **sampling), k)
    return getattr(specdec.topology, name)(k)
