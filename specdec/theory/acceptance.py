"""Probability that a drafted token is accepted, by method and child index.

The acceptance by index R(r) is the probability that a node's child with index r is accepted, if the node has
enough children. GSD and ERSD draft without replacement, so R sums to one over all tokens that the draft can
propose, unless the target has tokens that the draft lacks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from specdec.checks import whole
from specdec.race import checked_seed
from specdec.theory.divergences import Distribution, checked_pair, total_variation
from specdec.theory.ersd_by_index import ersd_rates
from specdec.theory.gsd_by_index import gsd_rates
from specdec.topology import MAX_DRAFT_TOKENS

_LEAST = 1e-300
_MOST_SAMPLES = 10_000_000
Rates = Callable[[np.ndarray, np.ndarray, int, int, np.random.Generator], tuple[np.ndarray, np.ndarray]]
"""A function (p, q, k, samples, generator) that returns R as values [k] and standard errors [k] for one pair
of distributions."""


class Estimate(NamedTuple):
    """A value and its standard error, of the same shape. The error is 0 if the value is exact."""

    value: Tensor
    standard_error: Tensor


def gsd_acceptance(p: Distribution, q: Distribution) -> Tensor:
    """Probability that GSD accepts the first drafted token: 1 - D_TV[P, Q] (Section 3 of the paper)."""
    return 1 - total_variation(p, q)


def ersd_acceptance(p: Distribution, q: Distribution) -> Tensor:
    """Probability that ERSD accepts the first drafted token, exact: Σ_i 1 / Σ_j max(p_j/p_i, q_j/q_i).

    This is the probability of Lemma 3.1 of the paper. `harmonic_mean_similarity` and
    `ersd_total_variation_bound` bound it from below, and `gsd_acceptance` bounds it from above. It takes O(n
    log n): with tokens sorted by p/q, the maximum is q_j/q_i for j before i, and p_j/p_i from j = i on.
    """
    p, q = checked_pair(p, q)
    order = (p.log() - q.log()).nan_to_num(0.0).argsort(-1)
    p, q = p.gather(-1, order), q.gather(-1, order)
    p_from = p.flip(-1).cumsum(-1).flip(-1)
    q_before = q.cumsum(-1) - q
    positive = (p > 0) & (q > 0)
    return torch.where(positive, 1 / (p_from / p + q_before / q), 0).sum(-1)


def ersd_total_variation_bound(p: Distribution, q: Distribution) -> Tensor:
    """(1 - D_TV) / (1 + D_TV): a lower bound of ERSD's first acceptance, as is D_HM (Lemma 3.1 of the paper).

    Sometimes this bound is the tighter one, sometimes D_HM. This bound is exact at P = Q, where D_HM is 1/2.
    """
    distance = total_variation(p, q)
    return (1 - distance) / (1 + distance)


def poisson_matching_bound(p: Distribution, q: Distribution) -> Tensor:
    """1 - 1 / (1 + q_i / p_i) [..., n] (Lemma B.1 of the paper, the Poisson matching lemma).

    An upper bound of the probability that the races under P and Q have different winners, given that token i
    wins under Q. The bound is 1 where p_i is 0.
    """
    p, q = checked_pair(p, q)
    return torch.where(p > 0, q / (p + q), 1.0)


def gsd_acceptance_by_index(p: Distribution, q: Distribution, k: int) -> Tensor:
    """R(0), ..., R(k - 1) of GSD (Equation 3 of the paper), [..., k]: the values of
    `estimate_gsd_acceptance_by_index`."""
    return estimate_gsd_acceptance_by_index(p, q, k).value


def estimate_gsd_acceptance_by_index(
    p: Distribution, q: Distribution, k: int, *, samples: int = 4096, seed: int = 0
) -> Estimate:
    """GSD's acceptance by index, R of Equation 3 of the paper, with its standard error, both [..., k].

    It is exact, with error zero, if there are at most `gsd_by_index.MAX_PREFIXES` (200,000) ordered lists of
    up to k - 1 rejected tokens: for any k with up to 8 tokens, k = 2 with up to 199,999, k = 3 with up to
    447. Otherwise it is the mean over `samples` simulated lists of rejected tokens, each with its exact
    acceptance probabilities. ValueError if p or q is not a distribution, k < 1 or samples < 2.
    """
    return _by_row(gsd_rates, p, q, k, samples, seed)


def ersd_acceptance_by_index(p: Distribution, q: Distribution, k: int) -> Tensor:
    """R(0), ..., R(k - 1) of ERSD (Equation 3 of the paper), [..., k]: the values of
    `estimate_ersd_acceptance_by_index`."""
    return estimate_ersd_acceptance_by_index(p, q, k).value


def estimate_ersd_acceptance_by_index(
    p: Distribution, q: Distribution, k: int, *, samples: int = 2048, seed: int = 0
) -> Estimate:
    """ERSD's acceptance by index, R of Equation 3 of the paper, with its standard error, both [..., k].

    With up to `ersd_by_index.MAX_VOCABULARY` (512) tokens it is integrated, exact to 1e-12, and the error is
    0. With more tokens, R(0) has its closed form, and every other R(i) is a mean over `samples` simulated
    races under P. Each race gives the exact distribution of its winner's rank under Q at the winner's arrival
    time. ValueError as in `estimate_gsd_acceptance_by_index`.
    """
    return _by_row(ersd_rates, p, q, k, samples, seed)


def _by_row(rates: Rates, p: Distribution, q: Distribution, k: int, samples: int, seed: int) -> Estimate:
    """R (Equation 3 of the paper) of each pair in a batch, [..., k]. Pairs are simulated independently."""
    p, q = checked_pair(p, q)
    k, samples = whole("k", k, 1, MAX_DRAFT_TOKENS), whole("samples", samples, 2, _MOST_SAMPLES)
    generator, size = np.random.default_rng(checked_seed(seed)), p.shape[-1]
    result = np.zeros((2, p[..., 0].numel(), k))
    rows = zip(p.reshape(-1, size).cpu().numpy(), q.reshape(-1, size).cpu().numpy(), strict=True)
    for row, (p_row, q_row) in enumerate(rows):
        drafted = min(k, int((q_row > 0).sum()))
        # p / q must stay finite even for tokens that are hardly ever drafted. This changes the result by less
        # than its rounding error.
        q_row = np.where(q_row > 0, np.maximum(q_row, _LEAST), 0)
        result[:, row, :drafted] = rates(p_row, q_row, drafted, samples, generator)
    value, error = torch.from_numpy(result).reshape(2, *p.shape[:-1], k).to(p.device)
    return Estimate(value, error)
