"""Laws of the index that channel simulation sends, and their bits (Section 4 of the paper)."""

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
"""Means of a geometric index after which nothing is left of it."""
_AT_ONCE = 1 << 22


class IndexLaws(NamedTuple):
    """Laws of the index, and what they cost in bits, for proposals with and without replacement.

    with_replacement [count]: the law of channel simulation; entropy_with is that of all its indices, those
    beyond `count` too, and D_KL <= entropy_with. without_replacement [at most count]: the law of speculative
    decoding, R by child index; its entropy counts what is missing to 1 as one more outcome, and may fall
    below D_KL.
    """

    kl: float
    with_replacement: np.ndarray
    entropy_with: float
    without_replacement: np.ndarray
    entropy_without: float


def index_laws(p: Distribution, q: Distribution, method: Method, count: int = 4096) -> IndexLaws:
    """The index laws of one pair [n], [n], side by side, up to `count` indices.

    The laws whose entropies Equations 7 to 9 bound: greedy_rejection beside GSD, poisson_functional beside
    ERSD. Large vocabularies are simulated without replacement, see `theory.estimate_gsd_acceptance_by_index`.
    ValueError where p or q is no distribution, p has support that q lacks, or count < 1.
    """
    count = whole("count", count, 1, MOST_COUNT)
    p, q = covered_pair(p, q)
    if (p > _MOST_RATIO * q).any():
        token = int((p > _MOST_RATIO * q).argmax())
        raise ValueError(
            f"q[{token}] = {q[token]} is too small where p is {p[token]}: p / q is above {_MOST_RATIO:g}"
        )
    by_index = {
        "greedy_rejection": (_greedy_rejection_law, theory.gsd_acceptance_by_index),
        "poisson_functional": (_poisson_functional_law, theory.ersd_acceptance_by_index),
    }
    simulation, decoding = by_index[among("method", method, METHODS)]
    given, beyond = simulation(p, q, count)
    tree = decoding(p, q, min(count, len(q))).numpy()
    entropy = max(0.0, _surprise(given) + beyond)
    return IndexLaws(float(theory.kl_divergence(p, q)), given, entropy, tree, theory.entropy_of_rates(tree))


def _greedy_rejection_law(p: np.ndarray, q: np.ndarray, count: int) -> tuple[np.ndarray, float]:
    """R(r) = S(λ_r) - S(λ_{r+1}) with λ_{r+1} = λ_r + S(λ_r), r < count, and the entropy of the others.

    What is rejected does not matter.
    """
    pair = SortedPair(p, q)
    survival, level = np.ones(count + 1), 0.0
    for index in range(count):
        level += survival[index]
        survival[index + 1] = pair.survival(np.array(level))
    return -np.diff(survival), _entropy_of_pieces(pair, level, survival[-1])


def _entropy_of_pieces(pair: SortedPair, level: float, mass: float) -> float:
    """-Σ R(r) log R(r) of greedy rejection's index from where it has come to λ = `level`, S(λ) = `mass`.

    Between two ratios p/q, S is a line of slope -w, w = Q(p/q above): a step takes the part w of what is
    left, so that the index is geometric until λ passes the next ratio.
    """
    entropy = 0.0
    while mass > _NEGLIGIBLE and level < pair.ratio[-1]:
        first = int(np.searchsorted(pair.ratio, level))
        ratio, weight = float(pair.ratio[first]), min(float(pair.q_above[first]), 1.0)
        left = float(pair.survival(np.array(ratio))) / mass
        if not left:
            return entropy + _geometric_entropy(mass, weight, 1.0)
        steps = math.floor(math.log(left) / math.log1p(-weight)) if max(left, weight) < 1 else 0
        if steps:
            decay = steps * math.log1p(-weight)
            part = -math.expm1(decay)
            entropy += _geometric_entropy(mass, weight, part)
            level, mass = level + mass * part / weight, mass * math.exp(decay)
        # past the ratio, even where a step is less than rounding
        level = max(level + mass, math.nextafter(ratio, math.inf))
        after = float(pair.survival(np.array(level)))
        entropy += _surprise(np.array([mass - after]))
        mass = after
    return entropy


def _geometric_entropy(mass: float, weight: float, part: float) -> float:
    """-Σ R log R of R = mass · weight · (1 - weight)^j, from j = 0 until a part of the mass is taken.

    By the chain rule: all of a geometric index is whether it lies in that part, and where there or beyond.
    """
    taken = mass * part
    inside = _binary_entropy(weight) / weight - _binary_entropy(part) / part
    return taken * (inside - math.log2(taken))


def _binary_entropy(x: float) -> float:
    return -sum(y * math.log2(y) for y in (x, 1 - x) if y > 0)


def _poisson_functional_law(p: np.ndarray, q: np.ndarray, count: int) -> tuple[np.ndarray, float]:
    """Σ_i p_i A_i^r / (1 + A_i)^(r + 1), r < count, and the entropy of the others.

    Given the winner i, the index is geometric: until i wins, the proposals that arrive before it are Poisson
    with a mean of A_i t at an exponential time t, A_i = Σ_j max(0, q_j p_i / q_i - p_j) being the inverse of
    ERSD's i-th term, less 1.
    """
    p, q = p[p > 0], q[p > 0]
    order = np.argsort(p / q)
    p, q = p[order], q[order]
    left_out = max(1 - q.sum(), 0.0)
    overtaking = np.maximum(p / q * (np.cumsum(q) - q + left_out) - (np.cumsum(p) - p), 0)
    weights, inner = p / (1 + overtaking), overtaking > 0
    decays = np.log(overtaking[inner]) - np.log1p(overtaking[inner])
    certain, weights = weights[~inner].sum(), weights[inner]

    def law(indices: np.ndarray) -> np.ndarray:
        parts = np.array_split(np.arange(len(weights)), 1 + len(weights) * len(indices) // _AT_ONCE)
        return sum(weights[some] @ np.exp(decays[some, None] * indices) for some in parts)

    given = law(np.arange(count))
    given[0] += certain
    # beyond, the law is smooth enough for a sum to be an integral: over log r, in pieces
    last = _TAIL * (1 + overtaking.max())
    if last <= count:
        return given, 0.0
    ends = np.linspace(math.log(count - 0.5), math.log(last), 2 + int(2 * math.log(last / count)))
    places, shares = np.polynomial.legendre.leggauss(8)
    half = np.diff(ends)[:, None] / 2
    points = np.exp(ends[:-1, None] + half * (1 + places)).ravel()
    return given, float(_surprises(law(points)) @ ((half * shares).ravel() * points))


def _surprise(law: np.ndarray) -> float:
    """-Σ x log x."""
    return float(_surprises(law).sum())


def _surprises(law: np.ndarray) -> np.ndarray:
    return -law * np.log2(law, out=np.zeros_like(law), where=law > 0)
