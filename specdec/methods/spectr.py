"""SpecTr's k-SEQ: children drawn independently, all tested against one threshold.

Sun et al., "SpecTr: Fast Speculative Decoding via Optimal Transport", 2023. Lossless, and not
drafter-invariant.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from specdec.methods.gsd import Left, emitted, parts_of, running
from specdec.methods.verdict import Attempt, Decision, Drafted, OwnNoise, Verdict, drawn_from, walk
from specdec.race import Noise
from specdec.topology import Topology

_PRECISION = 1e-12
"""Of ρ, relative: any value from the root up is lossless, and this one accepts as good as all it can."""

Parts = Sequence[Tensor]
"""A law by parts of the vocabulary, float64 [part]."""


def spectr_round(
    drafted: Drafted,
    log_p: Sequence[Tensor],
    log_e: Noise,  # noqa: ARG001
    uniforms: OwnNoise,
) -> Verdict:
    """k-SEQ on a round of the decoder, beside the paper: a `Verifier`."""
    topology, token_ids, log_q, draws = drafted
    return verify_spectr(topology, token_ids, draws, log_p, log_q, uniforms.test, uniforms.last)


def verify_spectr(
    topology: Topology,
    token_ids: Sequence[int],
    draws: Sequence[Sequence[int]],
    log_p: Sequence[Tensor],
    log_q: Sequence[Tensor | None],
    uniform: Callable[[int, int], float],
    residual_uniform: Callable[[int], float],
    threshold: Callable[[Parts, Parts, int], float] | None = None,
) -> Verdict:
    """k-SEQ, beside the paper; arguments as in `verify_specinfer`. threshold: ρ, that of `k_seq_threshold`.

    At a node with n draws each of them, x, is accepted when u < p[x] / (ρ q[x]), in the order in which they
    were drawn. With β = Σ min(q, p / ρ), all are rejected with probability (1 - β)^n; then a sample of
    p - min(q, p / ρ) (1 - (1 - β)^n) / β is emitted, normalised.
    """
    threshold = threshold or k_seq_threshold

    def decide(row: int) -> Decision:
        depth, drawn, p, attempts = topology.depths[row], draws[row], log_p[row], []
        left = Left()
        if drawn:
            q = drawn_from(log_q, row, p.device)  # [vocabulary]
            laws = parts_of(p), parts_of(q)
            ratio = threshold(*laws, len(drawn))
            for number, child in enumerate(drawn):
                u, (p_x, q_x) = uniform(depth, number), left.of(p, q, token_ids[child])
                attempts.append(
                    Attempt(child, u, p_x, q_x, u * ratio * q_x < p_x, _quotient(p_x, ratio * q_x))
                )
                if attempts[-1].accepted:
                    return Decision(child, None, attempts)
            left = _rest(*laws, ratio, len(drawn))
        return Decision(None, emitted(left, p, residual_uniform(depth)), attempts)

    return walk(topology, decide, "residual")


def k_seq_threshold(p: Parts, q: Parts, n: int) -> float:
    """ρ of n draws, beside the paper: 1 - (1 - β)^n = ρβ with β = Σ min(q, p / ρ), from 1 to n.

    Never below the root. Regula falsi in its Illinois form: a dozen sums over the vocabulary.
    """
    low, high = 1.0, float(n)
    at_low, at_high = (_excess(p, q, rho, n) for rho in (low, high))
    if n == 1 or at_low <= 0:
        return low
    side = 0  # of the end that moved last
    while high - low > _PRECISION * high:
        rho = (low * at_high - high * at_low) / (at_high - at_low) if at_high < 0 else high
        rho = rho if low < rho < high else (low + high) / 2
        found = _excess(p, q, rho, n)
        if found > 0:
            low, at_low, at_high, side = rho, found, at_high / 2 if side == 1 else at_high, 1
        else:
            high, at_high, at_low, side = rho, found, at_low / 2 if side == -1 else at_low, -1
    return high


def _excess(p: Parts, q: Parts, rho: float, n: int) -> float:
    """1 - (1 - β)^n - ρβ, which falls with ρ."""
    beta = _overlap(p, q, rho)
    return _any_of(beta, n) - rho * beta


def _overlap(p: Parts, q: Parts, rho: float) -> float:
    """β = Σ min(q, p / ρ), at most 1."""
    return min(sum(float(torch.minimum(b, a / rho).sum()) for a, b in zip(p, q, strict=True)), 1.0)


def _any_of(beta: float, n: int) -> float:
    """1 - (1 - β)^n: of n independent tests one succeeds."""
    return -math.expm1(n * math.log1p(-beta)) if beta < 1 else 1.0


def _rest(p: Parts, q: Parts, rho: float, n: int) -> Left:
    """What n rejections leave of P; where that is nothing, by rounding, P itself."""
    beta = _overlap(p, q, rho)
    accepted = _any_of(beta, n) / beta if beta > 0 else float(n)
    weights = [(a - accepted * torch.minimum(b, a / rho)).clamp_min_(0) for a, b in zip(p, q, strict=True)]
    sums = running(weights)
    return Left(weights=weights, sums=sums) if sums[-1] > 0 else Left()


def _quotient(p: float, q: float) -> float | None:
    return p / q if q > 0 else None
