"""The topologies a visitor can choose by name, measured ones included."""

from __future__ import annotations

from typing import Any

import specdec

NAMES = ("simple", "sequence", "batch", "specinfer", "optimal", "context", "auto")
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
    if name == "context":
        return _context_tree(pair, k, sampling["method"])
    if name == "optimal":
        return specdec.optimal_topology(specdec.measure_acceptance(pair, prompt, **sampling), k)
    return getattr(specdec.topology, name)(k)


def _context_tree(pair: Any, k: int, method: str) -> Any:
    # what it expects was learnt at temperature 1; under any other it is no less exact
    if pair.target.name != "tiny/target":
        raise ValueError(
            "topology = 'context' is learnt for the embedded pair; for another one learn its acceptance with "
            "specdec.learn.learn_context, or take 'optimal'"
        )
    path = specdec.loading.EMBEDDED / f"context.{method}.json"
    return specdec.ContextTree(specdec.context.ContextAcceptance.load(path), k)
