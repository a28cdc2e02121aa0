"""Topology "auto": measure this pair on this machine, and take the tree with the most tokens per second.

Two measurements, made once per pair, method and sampling: what a forward over n tokens costs each model,
and how often the child with each index is accepted. Expected tokens over expected seconds then chooses
among optimal trees and sequences of several sizes, plain decoding (the empty tree) included.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from specdec.engine import Settings
from specdec.models import Model, Session
from specdec.on_device import engine_for
from specdec.optimal import optimal_topology
from specdec.race import derived_seed
from specdec.stats import acceptance_by_index
from specdec.theory import expected_tokens
from specdec.topology import Topology, sequence
from specdec.trace import Round

if TYPE_CHECKING:
    from specdec.pair import ModelPair

_WIDE = Topology([(*(0,) * depth, index) for depth in range(3) for index in range(8)])
"""Tried out to estimate acceptance: eight alternatives at each of three positions in a row."""
_TRIAL_TOKENS = 256
"""Tokens decoded to estimate acceptance."""
_TRIAL_PROMPT = 64
"""Most tokens of the prompt that a trial starts from."""
_TRIAL_SEED = 0x7472_6961_6C73
"""Trials must not race on a user's seed: GSD's tree would depend on the noise that it decodes with."""
_SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
_PREFIX = 32
"""Cached tokens while forwards are timed."""
_REPEATS = 12
"""Times that each forward is timed."""
_REMEMBERED = 16
"""Methods with their sampling whose trials and topologies a pair keeps."""


def measured_topology(pair: ModelPair, settings: Settings, prompt_ids: Sequence[int]) -> Topology:
    """The topology with the most expected tokens per second, chosen on first use."""
    key = (settings.method, settings.sampling)
    found = pair.measured_topologies.get(key)
    if found is None:
        found = _fastest(pair, trial(pair, settings, prompt_ids))
        _remember(pair.measured_topologies, key, found)
    return found


@dataclass(frozen=True)
class Trial:
    """What is kept of some hundred rounds on a wide tree; the rounds themselves take half a megabyte.

    acceptance: by child index [up to 8], as `smoothed_acceptance`. draft: seconds that drafting took in a
    round. rest: seconds of a round beside its forwards and its drafting.
    """

    acceptance: np.ndarray
    draft: float
    rest: float


def trial(pair: ModelPair, settings: Settings, prompt_ids: Sequence[int]) -> Trial:
    """What rounds of this pair say, decoded on first use.

    Length and seeds are the trial's own: what is chosen by it must not depend on the user's.
    """
    key = (settings.method, settings.sampling)
    found = pair.trials.get(key)
    if found is None:
        # short enough that the trial tree fits behind it in both contexts
        room = min(pair.target.context_length, pair.draft.context_length) - _WIDE.depth - 2
        found = _told(_decode_trial(pair, settings, prompt_ids[: max(1, min(_TRIAL_PROMPT, room))]))
        _remember(pair.trials, key, found)
    return found


def _told(rounds: Sequence[Round]) -> Trial:
    return Trial(
        acceptance=smoothed_acceptance(rounds),
        draft=_undisturbed([round.seconds.draft for round in rounds]),
        rest=_undisturbed([round.seconds.verify + round.seconds.rest for round in rounds]),
    )


def _remember(found: dict[Any, Any], key: Any, value: Any) -> None:
    """Keep it, and forget the oldest: a server is asked for more temperatures than it has memory for."""
    found[key] = value
    for oldest in list(found)[:-_REMEMBERED]:
        found.pop(oldest, None)  # another visitor's run may have done so in between


def smoothed_acceptance(rounds: Sequence[Round]) -> np.ndarray:
    """Acceptance by index, never increasing, at least one acceptance in ten thousand for index 0."""
    rates = np.array([index.rate for index in acceptance_by_index(rounds)] or [0.0])
    rates[0] = max(rates[0], 1e-4)
    return np.minimum.accumulate(rates)


def _decode_trial(pair: ModelPair, settings: Settings, prompt_ids: Sequence[int]) -> list[Round]:
    settings = settings._replace(max_new_tokens=_TRIAL_TOKENS, detail=False)
    topology = _trial_topology(pair)
    kind = engine_for(pair, topology)
    rounds: list[Round] = []
    seed = 0
    while sum(len(round.tokens) for round in rounds) < _TRIAL_TOKENS:
        engine = kind(pair, settings, topology, prompt_ids, derived_seed(_TRIAL_SEED, seed))
        engine.prefill()
        rounds.append(engine.round(len(rounds)))
        while rounds[-1].finish is None:
            rounds.append(engine.round(len(rounds)))
        seed += 1
    return rounds


def _fastest(pair: ModelPair, trial: Trial) -> Topology:
    acceptance, costs = trial.acceptance, _Costs(pair, trial)
    candidates = [Topology([])]
    for k in _SIZES:
        if 1 + k <= _most_tokens(pair):
            candidates += [optimal_topology(acceptance, k), sequence(k)]
    allowed = [tree for tree in candidates if tree.is_sequence or not _only_sequences(pair)]
    return max(allowed, key=lambda tree: expected_tokens(acceptance, tree) / costs.seconds(tree))


def _trial_topology(pair: ModelPair) -> Topology:
    return sequence(_WIDE.depth) if _only_sequences(pair) else _WIDE


def _only_sequences(pair: ModelPair) -> bool:
    return "sequence" in (pair.target.capability, pair.draft.capability)


def _most_tokens(pair: ModelPair) -> int:
    """Tokens of the largest forward worth measuring; it must fit into both contexts."""
    return min(1 + max(_SIZES), pair.target.context_length, pair.draft.context_length)


class _Costs:
    """Seconds of a round by topology: forwards as measured, bookkeeping as in the trial."""

    def __init__(self, pair: ModelPair, trial: Trial):
        self.target, self.draft = _forward_costs(pair)
        self.rest, tree = trial.rest, _trial_topology(pair)
        # drafting costs more than the draft's forwards: racing and choosing, about the same at each level
        self.level = max(trial.draft - self._draft_forwards(tree), 0) / tree.depth

    def seconds(self, topology: Topology) -> float:
        drafting = self._draft_forwards(topology) + self.level * topology.depth
        return drafting + self.target.seconds(1 + topology.num_draft_tokens) + self.rest

    def _draft_forwards(self, topology: Topology) -> float:
        inner = [sum(bool(topology.children[row]) for row in level) for level in topology.levels]
        return sum(self.draft.seconds(count) for count in inner if count)


class _ForwardCost:
    """Seconds of a cached forward over n tokens, measured at a few n, linear in between.

    They never fall with n: where they seem to, the machine was busy at that moment.
    """

    def __init__(self, seconds_by_count: Mapping[int, Sequence[float]]):
        self._counts = sorted(seconds_by_count)
        self._seconds = np.maximum.accumulate([_undisturbed(seconds_by_count[n]) for n in self._counts])

    def seconds(self, count: int) -> float:
        return float(np.interp(count, self._counts, self._seconds))


def _forward_costs(pair: ModelPair) -> list[_ForwardCost]:
    """Of target and draft. All sizes take turns: a busy moment then falls on all of them alike."""
    most = _most_tokens(pair)
    counts = sorted({min(count, most) for count in (1, 2, 3, 5, 9, 17, most)})
    models = (pair.target, pair.draft)
    sessions = [_prefilled(model, most) for model in models]
    seconds: list[dict[int, list[float]]] = [{count: [] for count in counts} for _ in models]
    for _ in range(_REPEATS):
        for model, session, found in zip(models, sessions, seconds, strict=True):
            for count in counts:
                found[count].append(_forward_seconds(session, model.device, count))
    return [_ForwardCost(found) for found in seconds]


def _prefilled(model: Model, count: int) -> Session:
    """A session with some text, and room for `count` tokens after it."""
    session = model.session()
    if prefix := min(_PREFIX, model.context_length - count):
        session.prefill([0] * prefix)
    return session


def _forward_seconds(session: Session, device: torch.device, count: int) -> float:
    tokens = torch.zeros(count, dtype=torch.int64, device=device)
    start = time.perf_counter()
    logits = session.forward(tokens, range(-1, count - 1))
    logits[-1, 0].item()  # waits for a GPU
    seconds = time.perf_counter() - start
    session.keep(())
    return seconds


def _undisturbed(seconds: Sequence[float]) -> float:
    """The lower quartile: other work on the machine only adds to the time."""
    return float(np.quantile(seconds, 0.25))
