"""Acceptance of one position with n drafts: by SpecInfer, by SpecTr, and by the best possible rule.

This is not in the paper. SpecInfer and SpecTr use independent draws. The highest acceptance of any rule is
known for independent draws, and for the drafts without replacement of GSD, ERSD and traversal verification.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from specdec.checks import truth, whole
from specdec.theory.acceptance import gsd_acceptance
from specdec.theory.all_drafts_in import Outside, outside_of_arrivals, outside_of_draws
from specdec.theory.divergences import Distribution, checked_pair
from specdec.theory.gsd_by_index import SortedPair
from specdec.topology import MAX_DRAFT_TOKENS

_HALVINGS = 60
_PARTS = 16
"""The search for the optimum divides each interval of set sizes into this many parts."""
_TOLERANCE = 1e-10


def specinfer_acceptance(p: Distribution, q: Distribution, n: int) -> Tensor:
    """Probability that SpecInfer's rule accepts one of n independent draws from q, [...].

    The rule is not in the paper (Miao et al., "SpecInfer", 2023). All draws are rejected with probability Σ
    max(P - λQ, 0), where λ grows by this sum at each rejection. For n = 1 the result is 1 - D_TV, as for GSD.
    ValueError if p or q is not a distribution, or n < 1.
    """
    p, q = checked_pair(p, q)
    level, rejected = torch.zeros_like(p[..., :1]), torch.ones_like(p[..., :1])
    for _ in range(whole("n", n, 1, MAX_DRAFT_TOKENS)):
        level = level + rejected
        rejected = (p - level * q).clamp_min_(0).sum(-1, keepdim=True)
    return 1 - rejected[..., 0]


def spectr_acceptance(p: Distribution, q: Distribution, n: int) -> Tensor:
    """Probability that SpecTr's k-SEQ accepts one of n independent draws from q: 1 - (1 - β)^n, [...].

    The rule is not in the paper (Sun et al., "SpecTr", 2023). β = Σ min(Q, P/ρ), and ρ is the solution of 1 -
    (1 - β)^n = ρβ, as in `methods.spectr`. For n = 1 the result is 1 - D_TV. ValueError if p or q is not a
    distribution, or n < 1.
    """
    n = whole("n", n, 1, MAX_DRAFT_TOKENS)
    return by_pair(lambda pair: _k_seq(pair, n), p, q)


def optimal_acceptance(p: Distribution, q: Distribution, n: int, replacement: bool = False) -> Tensor:
    """The highest acceptance of one position that any lossless rule can reach with n drafts from q, [...].

    It is the minimum over sets H of tokens of P(H) + Pr(some draft is not in H). This is not in the paper
    (Khisti et al., "Multi-draft speculative sampling: canonical decomposition and theoretical limits", 2024;
    Hu et al., "Towards optimal multi-draft speculative decoding", 2025). It is enough to try sets that grow
    in the order of p/q. replacement: whether drafts are independent draws from q; otherwise they are the
    first n arrivals of a race.

    Exact to 1e-9 at any vocabulary size. ValueError if p or q is not a distribution, or n < 1.
    """
    n, replacement = whole("n", n, 1, MAX_DRAFT_TOKENS), truth("replacement", replacement)
    if n == 1:
        return gsd_acceptance(p, q)  # the same value, computed faster
    outside = outside_of_draws if replacement else outside_of_arrivals
    return by_pair(lambda pair: _least(pair, outside(pair.q, n)), p, q)


def by_pair(acceptance: Callable[[SortedPair], float], p: Distribution, q: Distribution) -> Tensor:
    """Computes an acceptance for each pair of distributions in a batch, [...]."""
    p, q = checked_pair(p, q)
    rows = zip(*(x.reshape(-1, x.shape[-1]).cpu().numpy() for x in (p, q)), strict=True)
    values = [acceptance(SortedPair(*row)) for row in rows]
    return torch.tensor(values, dtype=torch.float64, device=p.device).reshape(p.shape[:-1])


def _k_seq(pair: SortedPair, n: int) -> float:
    """SpecTr's acceptance of n draws, 1 - (1 - β)^n, at its threshold ρ, which is found by bisection."""
    low, high, rejected = 1.0, float(n), 1.0
    for _ in range(_HALVINGS):
        rho = (low + high) / 2
        first = np.searchsorted(pair.ratio, rho)
        beta = min(float(pair.p_sum[first] / rho + pair.q_above[first]), 1.0)
        rejected = (1 - beta) ** n
        low, high = (rho, high) if 1 - rejected > rho * beta else (low, rho)
    return 1 - rejected


def _least(pair: SortedPair, outside: Outside) -> float:
    """The minimum of P(H) + Pr(some draft is outside H) over H, the first m tokens, by branch and bound.

    For a < m < b the sum is at least P(first a + 1 tokens) + Pr(some draft is outside the first b tokens). An
    interval (a, b) is divided while this bound is below the smallest sum found so far.
    """
    low, high = np.array([0]), np.array([len(pair.q)])
    outside_mass, best = outside(high), 1.0  # 1 is the sum of the empty set
    best = min(best, float(pair.p_sum[-1] + outside_mass[0]))
    while True:
        open_ = (high - low > 1) & (pair.p_sum[np.minimum(low + 1, high)] + outside_mass < best - _TOLERANCE)
        if not open_.any():
            return best
        edges = low[open_, None] + (high - low)[open_, None] * np.arange(_PARTS + 1) // _PARTS
        low, high = edges[:, :-1].ravel(), edges[:, 1:].ravel()
        low, high = low[low < high], high[low < high]
        sets, where = np.unique(high, return_inverse=True)
        values = outside(sets)
        best = min(best, float((pair.p_sum[sets] + values).min()))
        outside_mass = values[where]
