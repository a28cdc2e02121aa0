"""What the command `specdec` does: it chooses the draft tree, decodes, and prints the measured numbers."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from specdec import topology as topologies
from specdec.checks import whole
from specdec.decoding.run import Run, Shape, measure_acceptance
from specdec.methods import METHODS
from specdec.optimal import optimal_topology
from specdec.pair import ModelPair
from specdec.settings import RunSettings
from specdec.topology import Topology
from specdec.trace import Generation


def measured(generation: Generation) -> dict[str, Any]:
    """The numbers of a run, as `--json` prints them.

    ms_per_token leaves out the first round, which is slower because it warms up the models.
    """
    rounds = generation.rounds[1:] or generation.rounds
    seconds = sum(round.seconds.total for round in rounds) / sum(len(round.tokens) for round in rounds)
    return {
        "method": generation.method,
        "tokens": len(generation.token_ids),
        "target_calls": generation.num_target_calls,
        "ms_per_token": 1000 * seconds,
        "acceptance": asdict(generation.acceptance),
    }


def chosen(pair: ModelPair, name: str, settings: RunSettings) -> Topology | str:
    """The topology named like `sequence(4)`. For `optimal(k)`, acceptance is measured first."""
    topology = named(name)
    if not isinstance(topology, int):
        return topology
    acceptance = measure_acceptance(pair, method=settings.method, **asdict(settings.sampling))
    return optimal_topology(acceptance, topology)


def named(name: str) -> Topology | str | int:
    """Reads the name of a topology. The result is the topology, "auto", or the k of an optimal tree.

    A ValueError for an unknown name lists the known names.
    """
    kind, k = topologies.parsed(name)
    if name == "auto":
        return name
    if kind == "optimal" and k is not None:
        return whole("k", k, 1)
    if kind not in topologies.NAMED or (k is None and kind != "simple"):
        raise ValueError(
            f"topology = {name!r:.60} is not one of auto, simple, sequence(k), batch(k), specinfer(k) and "
            "optimal(k)"
        )
    return topologies.named(name)


def compared(
    pair: ModelPair, prompt: str | Sequence[int], settings: RunSettings, topology: Shape
) -> list[Generation]:
    """A run of each method from this prompt and seed (0 if none is set). The first run is plain decoding."""
    settings = settings._replace(seed=settings.seed or 0)
    generations = []
    for method in METHODS:
        own = settings._replace(method=method)
        for each in (own._replace(max_new_tokens=2), own):  # the first run warms up
            run = Run(pair, prompt, each, topology)
            deque(run, maxlen=0)
        generations.append(run.generation)
    return generations
