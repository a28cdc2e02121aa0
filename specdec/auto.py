"""Topology "auto": measure this pair on this machine, and take the tree with the most tokens per second.

Two measurements, made once per pair, method and sampling: what a forward over n tokens costs each model,
and how often the child with each index is accepted. Expected tokens over expected seconds then chooses
among optimal trees and sequences of several sizes, plain decoding (the empty tree) included.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence

import numpy as np
import torch

from specdec.engine import Engine, Settings
from specdec.models import Model
from specdec.optimal import optimal_topology
from specdec.pair import ModelPair
from specdec.race import derived_seed
from specdec.stats import acceptance_by_index
from specdec.theory import expected_tokens
from specdec.topology import Topology, sequence
from specdec.trace import Round

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


def measured_topology(pair: ModelPair, settings: Settings, prompt_ids: Sequence[int]) -> Topology:
    """The topology with the most expected tokens per second, chosen on first use."""
    key = (settings.method, settings.sampling)
    if key not in pair.measured_topologies:
        rounds = trial_rounds(pair, settings, prompt_ids)
        pair.measured_topologies[key] = _fastest(pair, rounds)
    return pair.measured_topologies[key]


def trial_rounds(pair: ModelPair, settings: Settings, prompt_ids: Sequence[int]) -> list[Round]:
    """Rounds to estimate acceptance from, decoded on first use.

    Length and seeds are the trial's own: what is chosen by it must not depend on the user's.
    """
    key = (settings.method, settings.sampling)
    if key not in pair.trials:
        # short enough that the trial tree fits behind it in both contexts
        room = min(pair.target.context_length, pair.draft.context_length) - _WIDE.depth - 2
        pair.trials[key] = _decode_trial(pair, settings, prompt_ids[: max(1, min(_TRIAL_PROMPT, room))])
    return pair.trials[key]


def smoothed_acceptance(rounds: Sequence[Round]) -> np.ndarray:
    """Acceptance by index, never increasing, at least one acceptance in ten thousand for index 0."""
    rates = np.array([index.rate for index in acceptance_by_index(rounds)] or [0.0])
    rates[0] = max(rates[0], 1e-4)
    return np.minimum.accumulate(rates)


def _decode_trial(pair: ModelPair, settings: Settings, prompt_ids: Sequence[int]) -> list[Round]:
    settings = settings._replace(max_new_tokens=_TRIAL_TOKENS, detail=False)
    rounds: list[Round] = []
    seed = 0
    while sum(len(round.tokens) for round in rounds) < _TRIAL_TOKENS:
        engine = Engine(pair, settings, _trial_topology(pair), prompt_ids, derived_seed(_TRIAL_SEED, seed))
        engine.prefill()
        rounds.append(engine.round(len(rounds)))
        while rounds[-1].finish is None:
            rounds.append(engine.round(len(rounds)))
        seed += 1
    return rounds


def _fastest(pair: ModelPair, rounds: Sequence[Round]) -> Topology:
    acceptance = smoothed_acceptance(rounds)
    costs = _Costs(pair, rounds)
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
    """Seconds of a round by topology: forwards as measured, bookkeeping as in the trial rounds."""

    def __init__(self, pair: ModelPair, rounds: Sequence[Round]):
        self.target = _ForwardCost(pair.target, _most_tokens(pair))
        self.draft = _ForwardCost(pair.draft, _most_tokens(pair))
        self.rest = statistics.median(round.seconds.verify + round.seconds.rest for round in rounds)
        trial = _trial_topology(pair)
        draft_seconds = statistics.median(round.seconds.draft for round in rounds)
        # drafting costs more than the draft's forwards: racing and choosing, about the same at each level
        self.level = max(draft_seconds - self._draft_forwards(trial), 0) / trial.depth

    def seconds(self, topology: Topology) -> float:
        drafting = self._draft_forwards(topology) + self.level * topology.depth
        return drafting + self.target.seconds(1 + topology.num_draft_tokens) + self.rest

    def _draft_forwards(self, topology: Topology) -> float:
        inner = [sum(bool(topology.children[row]) for row in level) for level in topology.levels]
        return sum(self.draft.seconds(count) for count in inner if count)


class _ForwardCost:
    """Median seconds of a cached forward over n tokens, measured at a few n, linear in between."""

    def __init__(self, model: Model, most: int):
        self._counts = sorted({min(count, most) for count in (1, 2, 3, 5, 9, 17, most)})
        self._seconds = [_forward_seconds(model, count) for count in self._counts]

    def seconds(self, count: int) -> float:
        return float(np.interp(count, self._counts, self._seconds))


def _forward_seconds(model: Model, count: int, repeats: int = 7) -> float:
    session = model.session()
    if prefix := min(_PREFIX, model.context_length - count):
        session.prefill([0] * prefix)
    tokens = torch.zeros(count, dtype=torch.int64, device=model.device)
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        logits = session.forward(tokens, range(-1, count - 1))
        logits[-1, 0].item()  # waits for a GPU
        seconds.append(time.perf_counter() - start)
        session.keep(())
    return statistics.median(seconds)
