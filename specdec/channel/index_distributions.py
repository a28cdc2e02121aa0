"""Distributions of the index that channel simulation sends, and their entropies (Section 4 of the paper)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from specdec import theory
from specdec.channel.checked import METHODS, MOST_COUNT, Method, covered_pair
from specdec.checks import among, whole
from specdec.theory import Distribution
from specdec.theory.gsd_by_index import SortedPair

_MOST_RATIO = 1e300
_NEGLIGIBLE = 1e-15
_TAIL = 60
"""Beyond this many times its mean, a geometric index has no probability left that float64 can hold."""
_AT_ONCE = 1 << 22


class IndexDistributions(NamedTuple):
    """Distributions of the index for one pair P, Q, and their entropies in bits.

    kl: D_KL[P || Q]. with_replacement: the distribution [count] of channel simulation's index. entropy_with:
    the entropy of this index over all its values, including those from `count` on; it is at least D_KL.
    without_replacement: the distribution [up to count] of speculative decoding's child index.
    entropy_without: the entropy of the child index, where all further values together count as one more
    outcome; it may be below D_KL.
    """

    kl: float
    with_replacement: np.ndarray
    entropy_with: float
    without_replacement: np.ndarray
    entropy_without: float


def index_distributions(
    p: Distribution, q: Distribution, method: Method, count: int = 4096
) -> IndexDistributions:
    """The index distributions of one pair p, q [n] with and without replacement, up to `count` indices.

    With replacement, the index is that of channel simulation by this method, whose entropy Equations 6 to 8
    of the paper bound. Without replacement, it is the child index of GSD (greedy_rejection) or of ERSD
    (poisson_functional); for large vocabularies its distribution is simulated, as in
    `theory.estimate_gsd_acceptance_by_index`. ValueError if p or q is not a distribution, q is 0 where p is
    not, or count < 1.
    """
    count = whole("count", count, 1, MOST_COUNT)
    p, q = covered_pair(p, q)
    if (p > _MOST_RATIO * q).any():
        token = int((p > _MOST_RATIO * q).argmax())
        raise ValueError(
            f"q[{token}] = {q[token]} is too small where p is {p[token]}: p / q is above {_MOST_RATIO:g}"
        )
    by_index = {
        "greedy_rejection": (_greedy_rejection, theory.gsd_acceptance_by_index),
        "poisson_functional": (_poisson_functional, theory.ersd_acceptance_by_index),
    }
    simulation, decoding = by_index[among("method", method, METHODS)]
    law, tail = simulation(p, q, count)
    tree = decoding(p, q, min(count, len(q))).numpy()
    entropy = max(0.0, _surprise(law) + tail)
    return IndexDistributions(
        float(theory.kl_divergence(p, q)), law, entropy, tree, theory.entropy_of_rates(tree)
    )


def _greedy_rejection(p: np.ndarray, q: np.ndarray, count: int) -> tuple[np.ndarray, float]:
    """The distribution R(r) of the index for r < count, and -Σ R(r) log R(r) over all r ≥ count, in bits.

    R(r) = S(λ_r) - S(λ_{r+1}), with S(λ) = Σ max(P - λQ, 0), λ_0 = 0 and λ_{r+1} = λ_r + S(λ_r). Proposals
    are drawn with replacement, so R does not depend on which tokens were rejected.
    """
    pair = SortedPair(p, q)
    survival, level = np.ones(count + 1), 0.0
    for index in range(count):
        level += survival[index]
        survival[index + 1] = pair.survival(np.array(level))
    return -np.diff(survival), _entropy_of_pieces(pair, level, survival[-1])


def _entropy_of_pieces(pair: SortedPair, level: float, mass: float) -> float:
    """-Σ R(r) log R(r) over the indices that remain when λ is `level` and S(λ) is `mass`.

    Between two neighbouring ratios p/q, S is linear in λ with slope -w, where w is the mass of Q at larger
    ratios. In this piece each index takes the share w of the remaining mass, so it is geometric.
    """
    entropy = 0.0
    while mass > _NEGLIGIBLE and level < pair.ratio[-1]:
        first = int(np.searchsorted(pair.ratio, level))
        ratio, weight = float(pair.ratio[first]), min(float(pair.q_above[first]), 1.0)
        remaining = float(pair.survival(np.array(ratio))) / mass
        if not remaining:
            return entropy + _geometric_entropy(mass, weight, 1.0)
        steps = math.floor(math.log(remaining) / math.log1p(-weight)) if max(remaining, weight) < 1 else 0
        if steps:
            decay = steps * math.log1p(-weight)
            part = -math.expm1(decay)
            entropy += _geometric_entropy(mass, weight, part)
            level, mass = level + mass * part / weight, mass * math.exp(decay)
        # the next index steps past the ratio, even if the step is smaller than the rounding error
        level = max(level + mass, math.nextafter(ratio, math.inf))
        next_mass = float(pair.survival(np.array(level)))
        entropy += _surprise(np.array([mass - next_mass]))
        mass = next_mass
    return entropy


def _geometric_entropy(mass: float, weight: float, part: float) -> float:
    """-Σ R log R for R(j) = mass · weight · (1 - weight)^j, over the first j, whose R sum to mass · part.

    By the chain rule, the entropy of j is the entropy of whether j is among these, plus that of j given this.
    """
    piece = mass * part
    inside = _binary_entropy(weight) / weight - _binary_entropy(part) / part
    return piece * (inside - math.log2(piece))


def _binary_entropy(x: float) -> float:
    return -sum(y * math.log2(y) for y in (x, 1 - x) if y > 0)


def _poisson_functional(p: np.ndarray, q: np.ndarray, count: int) -> tuple[np.ndarray, float]:
    """The distribution R(r) = Σ_i p_i A_i^r / (1 + A_i)^(r + 1) of the index for r < count, and -Σ R log R
    over all r ≥ count, in bits.

    Given that token i wins at time t, the number of proposals before it is Poisson with mean A_i t, where A_i
    = Σ_j max(0, q_j p_i / q_i - p_j). Since t is exponential, the index is geometric.
    """
    p, q = p[p > 0], q[p > 0]
    order = np.argsort(p / q)
    p, q = p[order], q[order]
    left_out = max(1 - q.sum(), 0.0)
    overtaking = np.maximum(p / q * (np.cumsum(q) - q + left_out) - (np.cumsum(p) - p), 0)
    weights, inner = p / (1 + overtaking), overtaking > 0
    decays = np.log(overtaking[inner]) - np.log1p(overtaking[inner])
    certain, weights = weights[~inner].sum(), weights[inner]

    def distribution(indices: np.ndarray) -> np.ndarray:
        parts = np.array_split(np.arange(len(weights)), 1 + len(weights) * len(indices) // _AT_ONCE)
        return sum(weights[some] @ np.exp(decays[some, None] * indices) for some in parts)

    masses = distribution(np.arange(count))
    masses[0] += certain
    # for r ≥ count the distribution is smooth, so the sum becomes an integral over log r, in pieces
    last = _TAIL * (1 + overtaking.max())
    if last <= count:
        return masses, 0.0
    ends = np.linspace(math.log(count - 0.5), math.log(last), 2 + int(2 * math.log(last / count)))
    places, shares = np.polynomial.legendre.leggauss(8)
    half = np.diff(ends)[:, None] / 2
    points = np.exp(ends[:-1, None] + half * (1 + places)).ravel()
    return masses, float(_surprises(distribution(points)) @ ((half * shares).ravel() * points))


def _surprise(distribution: np.ndarray) -> float:
    """The sum -Σ x log2 x over all entries of a distribution, in bits."""
    return float(_surprises(distribution).sum())


def _surprises(distribution: np.ndarray) -> np.ndarray:
    return -distribution * np.log2(distribution, out=np.zeros_like(distribution), where=distribution > 0)
