"""Exponential-race speculative decoding: verification of a drafted tree, Algorithm 5 of the paper."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from specdec.methods.verdict import Decision, Drafted, Verdict, descend
from specdec.probs import LazyLogProbs, broken_logits, race_weights
from specdec.race import Noise, Race, first_of, orders_of

FEW_ROWS = 32
"""A GPU finds the winners of up to this many rows in one operation."""


def verify(drafted: Drafted, log_p: Sequence[Tensor], noise: Noise) -> Verdict:
    """Exponential-race speculative decoding (Algorithm 5 of the paper, corrected): a `Verifier`.

    The winner of a node's race under P is the next token of the text. If one of the node's children has this
    token, that child is accepted and verification continues at the child; otherwise the winner is emitted.
    The children must have been drafted with the same races, which are keyed by position.
    """
    topology = drafted.topology

    def race(row: int) -> Race:
        return noise.race(topology.path(row))

    together = _together(race, log_p)

    def decide(row: int) -> Decision:
        token_id = together[row] if together else _winner(race(row), log_p, row)
        return Decision(drafted.child(row, token_id), token_id)

    return descend(topology, decide, "correction")


def _winner(race: Race, log_p: Sequence[Tensor], row: int) -> int:
    """The winner of one race. ValueError if the row's logits define no distribution."""
    weights = race_weights(log_p, row)  # [vocabulary]
    token_id = race.winner(weights)
    if not math.isfinite(weights[token_id]):
        raise broken_logits()
    return token_id


def _together(race: Callable[[int], Race], log_p: Sequence[Tensor]) -> list[int] | None:
    """The winners of all rows, found on a GPU in the time of one row. None on a CPU, and for more than
    `FEW_ROWS` rows, whose exponentials would take much memory."""
    if not isinstance(log_p, LazyLogProbs) or len(log_p) > FEW_ROWS:
        return None
    rows = log_p.launched()  # [n, vocabulary]
    return None if rows is None else winners([race(row) for row in range(len(rows))], rows)


def sample(drafted: Drafted, log_p: Sequence[Tensor], noise: Noise) -> Verdict:
    """Autoregressive decoding (Algorithm 5 of the paper without a tree): a `Verifier` that returns the winner
    of the root's race."""
    return verify(drafted, log_p, noise)._replace(kind="sampled")


def winners(races: Sequence[Race], log_p: Tensor) -> list[int]:
    """The winner of each race (Section 3 of the paper) under its row of log_p [n, vocabulary], with one
    transfer from the device. ValueError if a row is NaN."""
    orders = orders_of(first_of(torch.stack([race.exponentials for race in races]) - log_p, 1))
    if not all(orders):
        raise broken_logits()
    return [token_id for (token_id,) in orders]
