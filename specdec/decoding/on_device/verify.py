"""Verification of all nodes at once, and the walk down the tree through what came out.

The decisions of `specdec.methods` on the same noise. Those sum over a vocabulary one row at a time; here
several rows are summed at once, in the device's own order, and q is conditioned in logarithms. So p and q of
a GSD test after a rejection may differ in their last places, and the decision only where its uniform falls
between.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from specdec.decoding.on_device.draft import DraftedThere
from specdec.decoding.on_device.plan import DeviceTree, Tests
from specdec.methods import Attempt, Decision, Verdict, walk
from specdec.race import winner
from specdec.topology import Topology


class Outcomes(NamedTuple):
    """What verification found at every row of the tree, wherever the walk will go.

    winners: the token to emit after this row if none of its children is accepted, or it has none. p, q: of
    the test of the row's own token; GSD's alone.
    """

    winners: Tensor  # int64 [1 + k]
    p: Tensor  # float64 [1 + k]
    q: Tensor  # float64 [1 + k]


def outcomes_ersd(plan: DeviceTree, log_p: Tensor, log_e: Tensor) -> Outcomes:
    """Algorithm 5 at all nodes: the winner of each race under P."""
    nothing = log_e.new_zeros(len(log_p))  # [1 + k]
    return Outcomes(winner(log_p, log_e.index_select(0, plan.depths)), nothing, nothing)


def outcomes_gsd(plan: DeviceTree, drafted: DraftedThere, log_p: Tensor, uniforms: Tensor) -> Outcomes:
    """Algorithm 4 at all nodes: p and q of each child's test, and a sample of what its rejections leave of P.

    uniforms: what the last token is sampled with at each depth, float64 [depth + 1].
    """
    left, p, q = _after_all_tests(plan.tests, drafted, log_p)
    leaves = log_p.index_select(0, plan.leaves).double().exp()  # [leaves, vocabulary]
    emitted = [
        _sample(weights, uniforms.index_select(0, plan.depths.index_select(0, rows)))
        for weights, rows in ((left, plan.tests.rows), (leaves, plan.leaves))
    ]
    winners = torch.cat(emitted).index_select(0, plan.tests.winners_by_row)  # [1 + k]
    return Outcomes(winners, p.index_select(0, plan.tests.by_row), q.index_select(0, plan.tests.by_row))


def _after_all_tests(tests: Tests, drafted: DraftedThere, log_p: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """What all rejections leave of P, [inner, vocabulary], not normalised, and p and q of the tests.

    The latter with the root's, which are 0, then the first children, the second ones and so on.
    """
    log_q = drafted.log_q.index_select(0, tests.places).double()  # [inner, vocabulary]
    weights = log_p.index_select(0, tests.rows).double().exp()  # [inner, vocabulary]
    mass = log_q.new_ones(len(log_q), 1)  # [inner, 1]
    all_p, all_q = [mass.new_zeros(1)], [mass.new_zeros(1)]  # [1] of the root, then [n] a test
    for child_index, children in enumerate(tests.children):
        n = len(children)  # the other nodes' tests are over
        if child_index:
            siblings = tests.children[child_index - 1][:n]
            log_q = _without(log_q[:n], drafted.tokens.index_select(0, siblings)[:, None])
        tokens = drafted.tokens.index_select(0, children)[:, None]  # [n, 1]
        supported = drafted.supported.index_select(0, children)[:, None]  # [n, 1]
        all_p.append((weights[:n].gather(-1, tokens) / mass[:n])[:, 0])  # [n]
        all_q.append(log_q.gather(-1, tokens).exp()[:, 0])  # [n]
        excess = (weights[:n] - mass[:n] * log_q.exp()).clamp_min_(0)  # [n, vocabulary]
        total = excess.sum(-1, keepdim=True)  # [n, 1]
        rejected = supported & (total > 0)  # where nothing would be left, p stays
        weights[:n] = torch.where(rejected, excess, weights[:n])
        mass[:n] = torch.where(rejected, total, mass[:n])
    return weights, torch.cat(all_p), torch.cat(all_q)


def _sample(weights: Tensor, uniforms: Tensor) -> Tensor:
    """`methods.gsd.sampled` of each row [n, vocabulary] with its uniform [n]."""
    sums = weights.cumsum(-1)  # [n, vocabulary]
    total = sums[:, -1:].contiguous()  # [n, 1]
    beyond = torch.searchsorted(sums, uniforms[:, None] * total, right=True)  # [n, 1]
    return torch.minimum(beyond, torch.searchsorted(sums, total))[:, 0]


def _without(log_q: Tensor, tokens: Tensor) -> Tensor:
    """log q [n, vocabulary] conditioned on not being a row's token [n, 1]; all -inf where q had no other."""
    log_q = log_q.scatter(-1, tokens, -math.inf)  # [n, vocabulary]
    left = log_q.log_softmax(-1)  # [n, vocabulary]
    return torch.where(left.isnan(), log_q, left)


def walk_gsd(
    topology: Topology,
    winners: Sequence[int],
    p: Sequence[float],
    q: Sequence[float],
    uniform: Callable[[int, int], float],
) -> Verdict:
    """Algorithm 4 given p and q of each row's test and the sample at each row."""

    def decide(row: int) -> Decision:
        attempts = []
        for child_index, child in enumerate(topology.children[row]):
            u = uniform(topology.depths[row], child_index)
            attempts.append(Attempt(child, u, p[child], q[child], u * q[child] < p[child]))
            if attempts[-1].accepted:
                return Decision(child, None, attempts)
        return Decision(None, winners[row], attempts)

    return walk(topology, decide, "residual")
