"""Drafts from one race or from many: the first n arrivals of one race, and the winners of n races.

Gumbel list sampling (Rowan, Phan and Khisti, 2025) runs n independent races. Draft k is the winner of race k
under Q. The target's token is the winner under P of a race in which each token has the smallest of its n
exponentials. ERSD drafts the first n arrivals of one race (`ersd_acceptance_by_index`). Given that the
target's token is j with arrival time T, c(z) = Σ_i max(q_i z - p_i, 0) and r = p / q:

    the race with j's smallest exponential has j as its draft with probability exp(-T c(r_j)),
    each other race has j as its draft with probability q_j T ∫_{r_j}^∞ exp(-T c(z)) dz,

independently given T, whose density is n e^-nT. c is linear between ratios, so the integral over z is a sum.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from specdec.checks import whole
from specdec.theory.divergences import Distribution, checked_pair
from specdec.theory.ersd_by_index import times_and_weights
from specdec.topology import MAX_DRAFT_TOKENS

_POINTS = 2**20


def list_sampling_acceptance(p: Distribution, q: Distribution, n: int) -> Tensor:
    """Probability that the target's token is among the winners of n independent races, [...].

    Exact to 1e-9 at any vocabulary, by quadrature over the winner's time. For n = 1 it is `ersd_acceptance`.
    ValueError if p or q is not a distribution, or n < 1.
    """
    n = whole("n", n, 1, MAX_DRAFT_TOKENS)
    return _by_row(lambda p, q: _list_sampling(p, q, n), p, q)


def list_matching_bound(p: Distribution, q: Distribution, n: int) -> Tensor:
    """Σ_j p_j n / (n + c_j): the list matching lemma, a lower bound of `list_sampling_acceptance`, [...].

    c_j = Σ_i max(q_i p_j / q_j - p_i, 0). The sum is also a lower bound of the acceptance of ERSD's first
    n arrivals, but weaker than `arrivals_bound`.
    """
    n = whole("n", n, 1, MAX_DRAFT_TOKENS)
    return _by_row(lambda p, q: float((p * n / (n + _overtaking(p, q))).sum()), p, q)


def arrivals_bound(p: Distribution, q: Distribution, n: int) -> Tensor:
    """A lower bound of the probability that the target's token is among ERSD's first n arrivals, [...].

    It is Σ_j p_j (1 - (c_j / (1 + c_j))^n) for each row of p and q, with c_j as in `list_matching_bound`. It
    is exact for n = 1, and close for many tokens of small probability.
    """
    n = whole("n", n, 1, MAX_DRAFT_TOKENS)

    def bound(p: np.ndarray, q: np.ndarray) -> float:
        c = _overtaking(p, q)
        return float((p * (1 - (c / (1 + c)) ** n)).sum())

    return _by_row(bound, p, q)


def _by_row(function: Callable[[np.ndarray, np.ndarray], float], p: Distribution, q: Distribution) -> Tensor:
    p, q = checked_pair(p, q)
    rows = zip(*(x.reshape(-1, x.shape[-1]).cpu().numpy() for x in (p, q)), strict=True)
    values = [function(*_sorted(*row)) for row in rows]
    return torch.tensor(values, dtype=torch.float64, device=p.device).reshape(p.shape[:-1])


def _sorted(p: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    p, q = p[q > 0], q[q > 0]
    order = np.argsort(p / q)
    return p[order], q[order]


def _overtaking(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """c(r_j), in the order of p / q: the rate at which tokens that lose under P overtake j under Q."""
    return np.maximum(p / q * (np.cumsum(q) - q) - (np.cumsum(p) - p), 0)


def _list_sampling(p: np.ndarray, q: np.ndarray, n: int) -> float:
    c, slopes = _overtaking(p, q), np.cumsum(q)
    times, weights = times_and_weights(float((p / q).max()))
    weights = weights * n * np.exp(-(n - 1) * times)
    rejected = 0.0
    for some in np.array_split(np.arange(len(times)), max(1, len(p) * len(times) // _POINTS)):
        late = np.exp(-np.outer(times[some], c))  # [times, tokens]
        steps = np.append(late[:, :-1] - late[:, 1:], late[:, -1:], 1) / slopes
        others = np.cumsum(steps[:, ::-1], 1)[:, ::-1] * q
        missed = -np.expm1(-np.outer(times[some], c)) * (1 - np.minimum(others, 1)) ** (n - 1)
        rejected += float(weights[some] @ (missed @ p))
    return max(0.0, float(p.sum()) - rejected)
