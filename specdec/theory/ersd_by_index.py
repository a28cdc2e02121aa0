"""ERSD's acceptance by index, by quadrature over the winner's arrival time.

Given that i wins the race under P at time t (density p_i e^-t), token j arrives before i under Q with
probability 1 - exp(-a_ij t), a_ij = max(0, q_j p_i / q_i - p_j), independently over j. So

    R(r) = Σ_i p_i ∫ e^-t PoissonBinomial_r(1 - exp(-a_ij t), j != i) dt.

The rates a_ij may differ by many orders of magnitude, so fixed Gauss-Laguerre nodes miss some of them. With
t = e^y, every factor exp(-a t) has the same curve over y, shifted. The trapezoid rule on an even grid of y
therefore serves all rates alike, and converges exponentially.
"""

from __future__ import annotations

import math

import numpy as np

MAX_VOCABULARY = 512
"""The largest vocabulary for which R is integrated. Each time takes O(n² k), for all pairs of tokens."""

_STEP = 0.15
_LAST_TIME = 42.0
_FIRST_TIME = 1e-8
_POINTS = 2048
"""The number of points (winner and time) computed together, so that they fit into a processor's cache."""


def ersd_rates(
    p: np.ndarray, q: np.ndarray, k: int, samples: int, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The acceptance R of ERSD (Equation 3 of the paper) and its standard errors, both [k]. p, q: [n]. k: at
    most the size of q's support."""
    p, q = p[q > 0], q[q > 0]
    order = np.argsort(p / q)
    p, q = p[order], q[order]
    if len(p) <= MAX_VOCABULARY:
        value, error = integrated_ersd(p, q, k), np.zeros(k)
    else:
        value, error = simulated_ersd(p, q, k, samples, generator)
    value[0], error[0] = first_acceptance(p, q), 0
    return value, error


def first_acceptance(p: np.ndarray, q: np.ndarray) -> float:
    """R(0) = Σ_i p_i / (1 + Σ_j a_ij), P_accept of Lemma 3.1 of the paper; q > 0, sorted by p/q."""
    ratio = p / q
    overtaking = ratio * (np.cumsum(q) - q) - (np.cumsum(p) - p)
    return float((p / (1 + np.maximum(overtaking, 0))).sum())


def integrated_ersd(p: np.ndarray, q: np.ndarray, k: int) -> np.ndarray:
    """R (Equation 3 of the paper) [k] by quadrature; q > 0, sorted by p/q.

    This R(0) is accurate only to 1e-8; `first_acceptance` computes it exactly.
    """
    times, weights = times_and_weights(float((p / q).max()))
    distribution = np.zeros(k)
    winners = np.flatnonzero(p)
    if not len(winners):  # the supports are disjoint, so no drafted token is ever the target's winner
        return distribution
    parts = min(len(winners), math.ceil(len(winners) * len(times) / _POINTS))
    for some in np.array_split(winners, parts):
        ranks = rank_distribution(p, q, np.repeat(some, len(times)), np.tile(times, len(some)), k)
        distribution += ranks @ np.outer(p[some], weights).ravel()
    return distribution


def simulated_ersd(
    p: np.ndarray, q: np.ndarray, k: int, samples: int, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard errors [k] of R (Equation 3 of the paper) over simulated winners, and their times,
    of the race under P."""
    # the draft never proposes a winner outside q's support, so its rank counts as k or more
    covered = generator.random(samples) < p.sum()
    winners = generator.choice(len(p), samples, p=p / p.sum())
    ranks = rank_distribution(p, q, winners, generator.exponential(size=samples), k) * covered
    return ranks.mean(1), ranks.std(1, ddof=1) / math.sqrt(samples)


def rank_distribution(
    p: np.ndarray, q: np.ndarray, winners: np.ndarray, times: np.ndarray, k: int
) -> np.ndarray:
    """Probabilities [k, points] that the winner under P has rank 0, ..., k - 1 under Q, given its time.

    The rank is ERSD's child index (Algorithm 5 of the paper). winners, times: [points]. q > 0, sorted by p/q:
    only tokens before the winner in this order can overtake it.
    """
    order = np.argsort(winners)
    reach, now = (p / q)[winners][order] * times[order], times[order]
    first = np.searchsorted(winners[order], np.arange(len(p)), side="right")
    distribution = np.zeros((k, len(winners)))
    distribution[0] = 1
    for j in range(int(winners.max())):
        points = slice(first[j], None)
        rate = np.maximum(q[j] * reach[points] - p[j] * now[points], 0)
        arrived = -np.expm1(-rate)
        part = distribution[: j + 2, points]
        overtaken = part[:-1] * arrived
        part *= np.exp(-rate)
        part[1:] += overtaken
    result = np.empty_like(distribution)
    result[:, order] = distribution
    return result


def times_and_weights(largest_ratio: float) -> tuple[np.ndarray, np.ndarray]:
    """Times [m] and weights [m] with Σ weights f(times) ≈ ∫ e^-t f(t) dt, for the probability f of a rank.

    This holds for ranks above 0, for which f(t) <= t Σ a <= t p/q; this bound gives the first time.
    """
    first = math.log(_FIRST_TIME / math.sqrt(max(largest_ratio, 1.0)))
    times = np.exp(np.arange(first, math.log(_LAST_TIME) + _STEP, _STEP))
    return times, _STEP * times * np.exp(-times)
