"""SpecTr's k-SEQ: children drawn independently, all tested against one threshold.

Sun et al., "SpecTr: Fast Speculative Decoding via Optimal Transport", 2023. The rule is lossless, but not
drafter-invariant.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from torch import Tensor

from specdec.methods.residual import Residual, parts_of
from specdec.methods.verdict import Attempt, Decision, Drafted, Verdict, descend
from specdec.race import Noise

_PRECISION = 1e-12
"""The relative precision of the threshold ρ, which is the root of an equation. A larger ρ also gives the
target's distribution, but accepts less."""

Parts = Sequence[np.ndarray]
"""A distribution as a list of parts of the vocabulary, float64 [part] each."""


def verify(
    drafted: Drafted,
    log_p: Sequence[Tensor],
    noise: Noise,
    threshold: Callable[[Parts, Parts, int], float] | None = None,
) -> Verdict:
    """k-SEQ (not in the paper): a `Verifier`. threshold: ρ from p, q and n; by default `k_seq_threshold`.

    The n draws of a node are tested in the order in which they were drawn: a draw x is accepted when
    u < p[x] / (ρ q[x]). With β = Σ min(q, p / ρ), all are rejected with probability (1 - β)^n. Then a sample
    of p - min(q, p / ρ) (1 - (1 - β)^n) / β, normalised, is emitted.
    """
    threshold = threshold or k_seq_threshold
    topology, token_ids, log_q, *_ = drafted

    def decide(row: int) -> Decision:
        node, tokens, attempts = topology.path(row), drafted.candidates(row), list[Attempt]()
        state = Residual(log_p[row], log_q[row])
        if tokens:
            p, q, n = parts_of(state.log_p), parts_of(state.log_q), len(tokens)
            rho = threshold(p, q, n)
            for number, child in enumerate(tokens):
                u, (p_x, q_x) = noise.test(node, number), state.probabilities(token_ids[child])
                ratio = p_x / (rho * q_x) if rho * q_x > 0 else None
                attempts.append(Attempt(child, u, p_x, q_x, u * rho * q_x < p_x, ratio))
                if attempts[-1].accepted:
                    return Decision(child, None, attempts)
            state.replace(_residual(p, q, rho, n))
        return Decision(None, state.sample(noise.last(node)), attempts)

    return descend(topology, decide, "residual")


def k_seq_threshold(p: Parts, q: Parts, n: int) -> float:
    """ρ for n draws, from 1 to n: the root of 1 - (1 - β)^n = ρβ with β = Σ min(q, p / ρ).

    The rule is not in the paper. The root is found by regula falsi in its Illinois form, which takes about
    twelve sums over the vocabulary. The result is at least the root, and any such ρ keeps the rule lossless.
    """
    low, high = 1.0, float(n)
    at_low, at_high = (_excess(p, q, rho, n) for rho in (low, high))
    if n == 1 or at_low <= 0:
        return low
    side = 0  # the end of the interval that moved last
    while high - low > _PRECISION * high:
        rho = (low * at_high - high * at_low) / (at_high - at_low) if at_high < 0 else high
        rho = rho if low < rho < high else (low + high) / 2
        excess = _excess(p, q, rho, n)
        if excess > 0:
            low, at_low, at_high, side = rho, excess, at_high / 2 if side == 1 else at_high, 1
        else:
            high, at_high, at_low, side = rho, excess, at_low / 2 if side == -1 else at_low, -1
    return high


def _excess(p: Parts, q: Parts, rho: float, n: int) -> float:
    """1 - (1 - β)^n - ρβ, which falls as ρ grows."""
    beta = _overlap(p, q, rho)
    return _any_of(beta, n) - rho * beta


def _overlap(p: Parts, q: Parts, rho: float) -> float:
    """β = Σ min(q, p / ρ), at most 1."""
    return min(sum(float(np.minimum(b, a / rho).sum()) for a, b in zip(p, q, strict=True)), 1.0)


def _any_of(beta: float, n: int) -> float:
    """1 - (1 - β)^n: the probability that at least one of n independent tests succeeds."""
    return -math.expm1(n * math.log1p(-beta)) if beta < 1 else 1.0


def _residual(p: Parts, q: Parts, rho: float, n: int) -> list[np.ndarray]:
    """The distribution from which a token is sampled after n rejections, unnormalised."""
    beta = _overlap(p, q, rho)
    accepted = _any_of(beta, n) / beta if beta > 0 else float(n)
    return [np.maximum(a - accepted * np.minimum(b, a / rho), 0) for a, b in zip(p, q, strict=True)]
