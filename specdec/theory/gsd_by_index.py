"""GSD's acceptance by index: exact over all lists of rejected tokens, or simulated.

After rejections the residual is max(P - λQ, 0) / S(λ) with S(λ) = Σ max(P - λQ, 0), and the draft is Q / c on
the tokens that were not rejected, whose mass is c. With μ = λ + S(λ) / c, the next child

    is accepted                 with probability 1 - S(μ) / S(λ),
    is x and rejected           with probability (max(P_x, μQ_x) - max(P_x, λQ_x)) / S(λ).

After that rejection λ becomes μ, and c loses Q_x. S(λ) is therefore the probability that all children so far
were rejected, given their tokens. Only the lists of rejected tokens must be enumerated or sampled.
"""

from __future__ import annotations

import math

import numpy as np

MAX_PREFIXES = 200_000
"""Acceptance is computed exactly if there are at most this many ordered lists of rejected tokens."""


def gsd_rates(
    p: np.ndarray, q: np.ndarray, k: int, samples: int, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The acceptance R of GSD (Equation 3 of the paper) and its standard errors, both [k]. p, q: [n]. k: at
    most the size of q's support."""
    pair = SortedPair(p, q)
    size = int((q > 0).sum())
    if sum(math.perm(size, length) for length in range(k)) <= MAX_PREFIXES:
        return exact_gsd(pair, k), np.zeros(k)
    return simulated_gsd(pair, k, samples, generator)


class SortedPair:
    """P and Q on the tokens with Q > 0, sorted by P/Q, with their running sums. uncovered: the mass of P on
    all other tokens."""

    def __init__(self, p: np.ndarray, q: np.ndarray):
        p, q, self.uncovered = p[q > 0], q[q > 0], float(p[q == 0].sum())
        order = np.argsort(p / q)
        self.p, self.q = p[order], q[order]
        self.ratio = self.p / self.q
        self.p_sum, self.q_sum = (np.concatenate([[0.0], np.cumsum(x)]) for x in (self.p, self.q))
        # Summed from the top: differences of sums from below would lose small tails to rounding.
        self.p_above, self.q_above = (np.append(np.cumsum(x[::-1])[::-1], 0.0) for x in (self.p, self.q))

    def survival(self, level: np.ndarray) -> np.ndarray:
        """S(λ) = Σ max(P - λQ, 0) for each λ in `level`."""
        first = np.searchsorted(self.ratio, level)
        return np.maximum(self.p_above[first] - level * self.q_above[first], 0) + self.uncovered


def exact_gsd(pair: SortedPair, k: int) -> np.ndarray:
    """R [k] of Equation 3 of the paper by recursion over ordered lists of rejected tokens.

    The arrays have one row for each list. `weight` holds the probability that exactly the list's tokens are
    drafted and rejected, in this order. `remaining` marks all other tokens.
    """
    level, weight = np.zeros(1), np.ones(1)
    remaining = np.ones((1, len(pair.q)), dtype=bool)
    distribution = np.zeros(k)
    for index in range(k):
        mass = pair.survival(level)
        # a list reaches S(λ) = 0 only by rounding; then nothing is left to accept
        alive = (weight > 0) & (mass > 0)
        next_level = level + mass / np.where(remaining, pair.q, 0).sum(-1)
        distribution[index] = (weight[alive] * (1 - pair.survival(next_level)[alive] / mass[alive])).sum()
        if index + 1 == k:
            break
        rejected = _rejection(pair, level[:, None], next_level[:, None], slice(None))
        chances = (
            np.where(remaining & alive[:, None], rejected, 0) * (weight / np.where(alive, mass, 1))[:, None]
        )
        rows, tokens = np.nonzero(chances)
        level, weight, remaining = next_level[rows], chances[rows, tokens], remaining[rows]
        remaining[np.arange(len(rows)), tokens] = False
    return distribution


def simulated_gsd(
    pair: SortedPair, k: int, samples: int, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard errors [k] of R (Equation 3 of the paper) over sampled lists of rejected tokens."""
    level, mass_outside = np.zeros(samples), np.ones(samples)
    rejected = np.empty((samples, 0), dtype=np.int64)
    drops = np.zeros((k, samples))
    for index in range(k):
        mass = pair.survival(level)
        next_level = level + mass / np.maximum(mass_outside, np.finfo(float).tiny)
        drops[index] = mass - pair.survival(next_level)
        if index + 1 < k:
            tokens = _sampled_rejections(pair, level, next_level, rejected, generator.random(samples))
            rejected = np.sort(np.concatenate([rejected, tokens[:, None]], 1), 1)
            mass_outside = _mass_left(pair.q, rejected)
            level = next_level
    return drops.mean(1), drops.std(1, ddof=1) / math.sqrt(samples)


def _rejection(
    pair: SortedPair, level: np.ndarray, next_level: np.ndarray, tokens: np.ndarray | slice
) -> np.ndarray:
    p, q = pair.p[tokens], pair.q[tokens]
    return np.maximum(p, next_level * q) - np.maximum(p, level * q)


def _mass_left(q: np.ndarray, rejected: np.ndarray) -> np.ndarray:
    """For each sample, the mass of Q outside its rejected tokens. Tiny masses are summed directly, because a
    difference would lose digits."""
    masses = q.sum() - q[rejected].sum(1)
    tiny = masses < 1e-8
    lists, which = np.unique(rejected[tiny], axis=0, return_inverse=True)
    # numpy 2.0 returns a column here
    masses[tiny] = np.array([np.delete(q, tokens).sum() for tokens in lists])[which.ravel()]
    return masses


def _sampled_rejections(
    pair: SortedPair, level: np.ndarray, next_level: np.ndarray, rejected: np.ndarray, uniforms: np.ndarray
) -> np.ndarray:
    """One more rejected token per sample, by inverting the running sum of `_rejection` over sorted tokens.

    rejected: tokens rejected before, [samples, so far], ascending; they are skipped. The running sum has a
    closed form, so a sample needs a bisection instead of a pass over the vocabulary.
    """
    below, until = np.searchsorted(pair.ratio, level), np.searchsorted(pair.ratio, next_level)

    def running_sum(count: np.ndarray) -> np.ndarray:
        low, high = np.minimum(count, below), np.clip(count, below, until)
        between_q, between_p = pair.q_sum[high] - pair.q_sum[below], pair.p_sum[high] - pair.p_sum[below]
        return (next_level - level) * pair.q_sum[low] + next_level * between_q - between_p

    jumps = [_rejection(pair, level, next_level, column) for column in rejected.T]
    aim = uniforms * np.maximum(running_sum(until) - sum(jumps), 0)
    # The running sum without rejected tokens equals the running sum of all tokens at the same token, once the
    # mass of each earlier rejected token is added to it.
    for column, jump in zip(rejected.T, jumps, strict=True):
        aim += np.where(aim >= running_sum(column), jump, 0)
    low, high = np.zeros_like(until), until
    while (low < high).any():
        middle = (low + high) // 2
        is_above = running_sum(middle + 1) > aim
        low, high = np.where(is_above, low, np.minimum(middle + 1, high)), np.where(is_above, middle, high)
    return np.minimum(low, len(pair.q) - 1)
