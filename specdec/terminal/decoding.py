"""What the command decodes: one run, or one of each method, and what they measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from specdec import topology as topologies
from specdec.checks import whole
from specdec.decoding.run import generate, measure_acceptance
from specdec.methods import METHODS
from specdec.optimal import optimal_topology
from specdec.pair import ModelPair
from specdec.topology import Topology
from specdec.trace import Generation


@dataclass(frozen=True)
class Measured:
    """What one run measured.

    tokens, target_calls: of the run. drafted, accepted: tokens that were, in all of it. ms_per_token: without
    the run's first round, which also warms up. times_plain: how many times faster than autoregressive
    decoding of the same prompt; same_text: whether its text is that of the same seed.
    """

    method: str
    tokens: int
    target_calls: int
    tokens_per_call: float
    drafted: int
    accepted: int
    ms_per_token: float
    times_plain: float
    same_text: bool

    @classmethod
    def of(cls, generation: Generation, plain: Generation) -> Measured:
        """What these two runs say."""
        return cls(
            method=generation.method,
            tokens=len(generation.token_ids),
            target_calls=generation.num_target_calls,
            tokens_per_call=generation.block_efficiency,
            drafted=sum(len(round.nodes) for round in generation.rounds),
            accepted=sum(round.num_accepted for round in generation.rounds),
            ms_per_token=1000 * seconds_per_token(generation),
            times_plain=seconds_per_token(plain) / seconds_per_token(generation),
            same_text=generation.token_ids == plain.token_ids,
        )

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def seconds_per_token(generation: Generation) -> float:
    """Seconds of a token, without those of the first round where there are more."""
    rounds = generation.rounds[1:] or generation.rounds
    return sum(round.seconds.total for round in rounds) / sum(len(round.tokens) for round in rounds)


def chosen(pair: ModelPair, name: str, settings: dict[str, Any]) -> Topology | str:
    """The topology with a name like `sequence(4)`; `auto` measures later. ValueError lists the names."""
    topology = named(name)
    if not isinstance(topology, int):
        return topology
    sampling = {key: settings[key] for key in ("temperature", "top_k", "top_p")}
    return optimal_topology(measure_acceptance(pair, method=settings["method"], **sampling), topology)


def named(name: str) -> Topology | str | int:
    """What needs no measuring: a topology, `auto`, or k of the optimal tree. ValueError as in `chosen`."""
    kind, k = topologies.parsed(name)
    if name == "auto":
        return name
    if kind == "optimal" and k is not None:
        return whole("k", k, 1)
    if kind not in topologies.NAMED or (k is None and kind != "simple"):
        raise ValueError(
            f"topology = {name!r:.60} is none of auto, simple, sequence(k), batch(k), specinfer(k) and "
            "optimal(k)"
        )
    return topologies.named(kind, k)


def plainly(pair: ModelPair, prompt: str | Sequence[int], settings: dict[str, Any]) -> Generation:
    """The same without a draft."""
    return generate(pair, prompt, **(settings | {"method": "ar", "topology": None}))


def compared(pair: ModelPair, prompt: str | Sequence[int], settings: dict[str, Any]) -> list[Measured]:
    """Each method from this prompt and seed (0 where there is none), the first of them plain decoding."""
    settings = settings | {"seed": settings["seed"] or 0}
    found = []
    for method in METHODS:
        own = settings | {"method": method}
        # a first one for what is only done once
        generate(pair, prompt, **(own | {"max_new_tokens": 2}))
        found.append(generate(pair, prompt, **own))
    return [Measured.of(generation, found[0]) for generation in found]
