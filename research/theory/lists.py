"""Acceptance of n drafts: the first n arrivals of one race, or the winners of n races.

Gumbel list sampling (Rowan, Phan and Khisti, 2025) runs n independent races. Draft k is the winner of race k
under Q. The target's token is the winner under P of the race in which each token has the smallest of
its n exponentials. ERSD drafts the first n arrivals of one race (`ersd_acceptance_by_index`). Let j be the
target's token, T its arrival time, c(z) = Σ_i max(q_i z - p_i, 0) and r = p / q. Then

    the race with the smallest exponential of j has j as its draft with probability exp(-T c(r_j)),
    each other race has j as its draft with probability q_j T ∫_{r_j}^∞ exp(-T c(z)) dz.

These events are independent given T, which has the density n e^-nT. Between ratios c is linear, so the
integral over z is a sum.
"""

import numpy as np
from torch import Tensor

from specdec.checks import whole
from specdec.theory.divergences import Distribution
from specdec.theory.ersd_by_index import times_and_weights
from specdec.theory.gsd_by_index import SortedPair
from specdec.theory.several_drafts import by_pair
from specdec.topology import MAX_DRAFT_TOKENS

_POINTS = 2**20


def list_sampling_acceptance(p: Distribution, q: Distribution, n: int) -> Tensor:
    """Probability that the target's token is among the winners of n independent races, [...].

    Exact to 1e-9 at any vocabulary size, by quadrature over the winner's time. For n = 1 it is
    `ersd_acceptance`. ValueError if p or q is not a distribution, or n < 1.
    """
    n = whole("n", n, 1, MAX_DRAFT_TOKENS)
    return by_pair(lambda pair: _list_sampling(pair, n), p, q)


def list_matching_bound(p: Distribution, q: Distribution, n: int) -> Tensor:
    """The list matching lemma: Σ_j p_j n / (n + c_j), a lower bound on `list_sampling_acceptance`, [...].

    c_j = Σ_i max(q_i p_j / q_j - p_i, 0). The sum is also a lower bound of the acceptance of ERSD's first n
    arrivals, but a weaker one than `arrivals_bound`.
    """
    n = whole("n", n, 1, MAX_DRAFT_TOKENS)
    return by_pair(lambda pair: float((pair.p * n / (n + _overtaking(pair))).sum()), p, q)


def arrivals_bound(p: Distribution, q: Distribution, n: int) -> Tensor:
    """A lower bound on the probability that the target's token is among ERSD's first n arrivals, [...].

    It is Σ_j p_j (1 - (c_j / (1 + c_j))^n) for each row of p and q, with c_j as in `list_matching_bound`. It
    is exact for n = 1, and close to exact if there are many tokens of small probability.
    """
    n = whole("n", n, 1, MAX_DRAFT_TOKENS)

    def bound(pair: SortedPair) -> float:
        c = _overtaking(pair)
        return float((pair.p * (1 - (c / (1 + c)) ** n)).sum())

    return by_pair(bound, p, q)


def _overtaking(pair: SortedPair) -> np.ndarray:
    """c(r_j) for each token j, in the order of p / q: the rate at which other tokens overtake j under Q."""
    return np.maximum(pair.ratio * pair.q_sum[:-1] - pair.p_sum[:-1], 0)


def _list_sampling(pair: SortedPair, n: int) -> float:
    c, slopes = _overtaking(pair), pair.q_sum[1:]
    times, weights = times_and_weights(float(pair.ratio[-1]))
    weights = weights * n * np.exp(-(n - 1) * times)
    rejected = 0.0
    for some in np.array_split(np.arange(len(times)), max(1, len(c) * len(times) // _POINTS)):
        late = np.exp(-np.outer(times[some], c))  # [times, tokens]
        steps = np.append(late[:, :-1] - late[:, 1:], late[:, -1:], 1) / slopes
        tail = np.cumsum(steps[:, ::-1], 1)[:, ::-1] * pair.q
        missed = -np.expm1(-np.outer(times[some], c)) * (1 - np.minimum(tail, 1)) ** (n - 1)
        rejected += float(weights[some] @ (missed @ pair.p))
    return max(0.0, float(pair.p_sum[-1]) - rejected)
