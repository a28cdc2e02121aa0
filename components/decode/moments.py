"""Finds the moment of a run that shows best what the run is recorded for, such as an early rejection."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from specdec import Generation, Round


@dataclass(frozen=True)
class Moment:
    """A moment of a run. round and step count from 0. score: how well the moment shows what the run is
    recorded for; of several runs, the run with the highest score is recorded."""

    round: int
    step: int
    score: float


def correction_after_many(run: Generation) -> Moment | None:
    """The end of the round that yields the most tokens, among the rounds with a tree of full size whose last
    token is a correction and a word. Runs with more tokens per target call score higher."""
    for round in sorted(run.rounds, key=lambda round: -len(round.tokens)):
        last = round.tokens[-1]
        if last.kind == "correction" and last.text.strip().isalpha() and len(round.nodes) == len(run.paths):
            return Moment(round.number, len(round.tokens) - 1, run.block_efficiency)
    return None


def long_run(run: Generation) -> Moment | None:
    """The end of the first round in which the whole drafted sequence is accepted. Runs with more tokens per
    target call score higher."""
    for round in run.rounds:
        if len(round.nodes) == len(run.paths) == round.num_accepted:
            return Moment(round.number, round.num_accepted, run.block_efficiency)
    return None


def early_rejection(run: Generation) -> Moment | None:
    """The start of the run, if its first drafted token is rejected, so that all tokens drafted after it are
    lost. A rejection by a larger margin scores higher."""
    first = run.rounds[0].steps[0]
    if first.kind != "residual" or len(first.trials) != 1:
        return None
    trial = first.trials[0]
    return Moment(0, 0, trial.u - trial.p / trial.q + 0.3 * trial.q)


def parting(gsd: Generation, ersd: Generation) -> Moment | None:
    """The moment at which the texts of the two methods first differ, if both drafted the same tree and only
    one of them accepts a token there. Later moments score higher."""
    for one, other in zip(gsd.rounds, ersd.rounds, strict=False):
        if [token.id for token in one.tokens] == [token.id for token in other.tokens]:
            continue
        if drafted(one) != drafted(other) or len(one.nodes) < len(gsd.paths):
            return None
        pairs = zip(one.tokens, other.tokens, strict=False)
        step = next((i for i, (a, b) in enumerate(pairs) if a.id != b.id), None)
        if step is None or (one.steps[step].kind == "accepted") == (other.steps[step].kind == "accepted"):
            return None
        return Moment(one.number, step, one.number + step)
    return None


def drafted(round: Round) -> list[tuple[Any, int]]:
    """The drafted tree of a round, in a form that can be compared: the paths and tokens of its nodes."""
    return [(node.path, node.token_id) for node in round.nodes]


def wide_tree(run: Generation) -> Moment | None:
    """The moment at which the alternative with the highest child index of the whole run is accepted.

    If there are several, the round with the most accepted tokens counts. The score is the index plus this
    number of accepted tokens. None if the index is below 4 or only one token is accepted.
    """
    accepted = [
        (max(node.path), round.num_accepted, round.number)
        for round in run.rounds
        for node in round.nodes
        if node.status == "accepted" and len(round.nodes) == len(run.paths)
    ]
    index, depth, number = max(accepted, default=(0, 0, 0))
    if index < 4 or depth < 2:
        return None
    path = next(n.path for n in run.rounds[number].nodes if n.status == "accepted" and max(n.path) == index)
    return Moment(number, path.index(index), index + depth)


def undrafted(run: Generation) -> Moment | None:
    """The moment at which the target's winner arrives so late in the draft's race that no tree of the run's
    size would have contained it."""
    moments = []
    for round in run.rounds:
        step = round.steps[-1]
        winner = next(a for a in step.leading if a.token_id == step.token_id)
        # a token of probability 0 never arrives
        times = {a.token_id: math.inf if a.arrival_q is None else a.arrival_q for a in step.leading}
        order = sum(time < times[winner.token_id] for time in times.values())
        if step.kind == "correction" and step.path == () and order >= 8 and winner.p > 0.05:
            score = winner.p / max(winner.q, 1e-4) / 100 + run.block_efficiency
            moments.append(Moment(round.number, 0, score))
    return max(moments, key=lambda moment: moment.score, default=None)
