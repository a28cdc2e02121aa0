"""Verification of a drafted tree, GSD and ERSD side by side: pure functions, no model.

Both take the topology, the drafted token of each row (row 0 is the root, see `topology`), the target's
log-probabilities per row and their randomness, and return a `Verdict`. They share the drafting and differ
here only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from specdec.probs import residual
from specdec.race import winner
from specdec.topology import Topology
from specdec.trace import Kind


class Attempt(NamedTuple):
    """One acceptance test of GSD: row's token accepted when `u < p / q`, p and q at that moment."""

    row: int
    u: float
    p: float
    q: float
    accepted: bool


class Verdict(NamedTuple):
    """What verification decided.

    rows: the accepted rows, from the root's child downwards. token_id: the last token of the round; None
    where the text ended with an accepted token. kind: `bonus` (accepted to a leaf), else `residual` (GSD)
    or `correction` (ERSD). attempts: the acceptance tests of GSD, in order.
    """

    rows: tuple[int, ...]
    token_id: int | None
    kind: Kind
    attempts: tuple[Attempt, ...] = ()


def verify_ersd(
    topology: Topology, token_ids: Sequence[int], log_p: Sequence[Tensor], log_e: Tensor
) -> Verdict:
    """Exponential-race speculative decoding (Algorithm 5 of the paper, corrected).

    token_ids: [1 + k], the root's is not looked at. log_p: [1 + k, vocabulary], row r the target's
    distribution after row r. log_e: [depth + 1, vocabulary], the race of each depth, the same one that
    the children of that depth were drafted with.

    At each node the race's winner under P is the token of the text. If a child was drafted with that
    token, it is accepted and verification moves on to it; else the winner is emitted.
    """
    row, rows = 0, []
    while True:
        token_id = int(winner(log_p[row], log_e[topology.depths[row]]))
        children = topology.children[row]
        accepted = next((child for child in children if token_ids[child] == token_id), None)
        if accepted is None:
            return Verdict(tuple(rows), token_id, "correction" if children else "bonus")
        rows.append(row := accepted)


def verify_gsd(
    topology: Topology,
    token_ids: Sequence[int],
    log_p: Sequence[Tensor],
    log_q: Sequence[Tensor | None],
    uniform: Callable[[int, int], float],
    residual_log_e: Callable[[int], Tensor],
) -> Verdict:
    """Greedy speculative decoding (Algorithm 4 of the paper, corrected).

    token_ids, log_p: as in `verify_ersd`. log_q: by row, [vocabulary], the distributions that the
    children were drafted from; those of leaves are not read. uniform(depth, child_index): the acceptance
    uniform of that child. residual_log_e(depth): log-exponentials [vocabulary] for the last token.
    Neither may depend on the drafting race.

    At each node the children x are tried in order: accept when u < p[x] / q[x]; on rejection p becomes
    the residual and q is renormalised without x. All rejected: emit a sample of the residual; at a
    leaf: a sample of p.
    """
    row, rows, attempts = 0, [], []
    while True:
        depth, children, accepted = topology.depths[row], topology.children[row], None
        # a node's whole distributions are touched after a rejection only: until then these stay None;
        # q stays in logarithms, since at a low temperature all of it but one token may round to zero
        p: Tensor | None = None
        left: Tensor | None = None
        for child_index, child in enumerate(children):
            x = token_ids[child]
            if p is not None:
                left = _without(left, token_ids[child - 1])  # children are neighbours
            p_x = float(log_p[row][x].double().exp() if p is None else p[x])
            q_x = float((log_q[row] if left is None else left)[x].double().exp())
            u = uniform(depth, child_index)
            attempts.append(Attempt(child, u, p_x, q_x, u * q_x < p_x))
            if attempts[-1].accepted:
                accepted = child
                break
            if p is None:
                p = log_p[row].to(torch.float64, copy=True).exp_()
                left = log_q[row].to(p.device, torch.float64, copy=True)
            p = residual(p, left.exp())
        if accepted is None:
            token_id = int(winner(log_p[row] if p is None else p.log(), residual_log_e(depth)))
            return Verdict(tuple(rows), token_id, "residual" if children else "bonus", tuple(attempts))
        rows.append(row := accepted)


def _without(log_q: Tensor, token_id: int) -> Tensor:
    """log q conditioned on not being `token_id`, in place."""
    log_q[token_id] = -math.inf
    mass = log_q.logsumexp(-1)
    return log_q.sub_(mass) if mass.isfinite() else log_q
