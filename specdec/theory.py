"""What the paper states about two distributions, as functions. Logarithms are base 2: results in bits.

p is always the target's distribution, q the draft's: tensors or arrays [..., n] over one vocabulary, of which
the last dimension sums to one. Results have the leading dimensions. ValueError where an argument is no
distribution.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from specdec.topology import Topology

Distribution = Tensor | np.ndarray | list | tuple


def total_variation(p: Distribution, q: Distribution) -> Tensor:
    """D_TV[P, Q] = 1/2 Σ |p - q|, between 0 and 1."""
    p, q = _pair(p, q)
    return (p - q).abs().sum(-1) / 2


def harmonic_mean_similarity(p: Distribution, q: Distribution) -> Tensor:
    """D_HM[P, Q] = Σ p q / (p + q) (Lemma 3.1): 1/2 at P = Q and never more."""
    p, q = _pair(p, q)
    return torch.where(p + q > 0, p * q / (p + q), 0).sum(-1)


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """D_KL[P || Q] = Σ p log(p / q) in bits; infinite where p has support that q lacks."""
    p, q = _pair(p, q)
    return torch.where(p > 0, p * (p.log2() - q.log2()), 0).sum(-1)


def entropy(p: Distribution) -> Tensor:
    """H[P] = -Σ p log p in bits."""
    p = _distribution("p", p)
    return -torch.where(p > 0, p * p.log2(), 0).sum(-1)


def gsd_acceptance(p: Distribution, q: Distribution) -> Tensor:
    """Probability that GSD accepts the first drafted token: 1 - D_TV[P, Q]."""
    return 1 - total_variation(p, q)


def ersd_acceptance(p: Distribution, q: Distribution) -> Tensor:
    """Probability that ERSD accepts the first drafted token, exact: Σ_i 1 / Σ_j max(p_j/p_i, q_j/q_i).

    O(n log n): sorted by p/q, the maximum is p_j/p_i from i on and q_j/q_i before it.
    """
    p, q = _pair(p, q)
    order = (p.log() - q.log()).nan_to_num(0.0).argsort(-1)
    p, q = p.gather(-1, order), q.gather(-1, order)
    p_from = p.flip(-1).cumsum(-1).flip(-1)
    q_before = q.cumsum(-1) - q
    both = (p > 0) & (q > 0)
    return torch.where(both, 1 / (p_from / p + q_before / q), 0).sum(-1)


def expected_tokens(acceptance_by_index: Distribution, topology: Topology) -> float:
    """Expected tokens per round: 1 + Σ over drafted nodes of R(path), R the product over child indices.

    acceptance_by_index: R(i) [n]; indices beyond it are never accepted.
    """
    rates = [float(rate) for rate in acceptance_by_index]
    reached = [1.0]
    for parent, child_index in zip(topology.parents[1:], topology.child_indices[1:], strict=True):
        reached.append(reached[parent] * (rates[child_index] if child_index < len(rates) else 0.0))
    return math.fsum(reached)


def _pair(p: Distribution, q: Distribution) -> tuple[Tensor, Tensor]:
    p, q = _distribution("p", p), _distribution("q", q)
    if p.shape[-1] != q.shape[-1]:
        raise ValueError(f"p has {p.shape[-1]} outcomes and q {q.shape[-1]}; both need the same vocabulary")
    return p, q


def _distribution(name: str, value: Distribution) -> Tensor:
    probs = torch.as_tensor(value, dtype=torch.float64)
    if probs.dim() < 1 or not torch.isfinite(probs).all() or (probs < 0).any():
        raise ValueError(f"{name} = {value} is not a distribution: its entries must be numbers from 0 up")
    total = probs.sum(-1)
    if ((total - 1).abs() > 1e-4).any():
        raise ValueError(f"{name} is not a distribution: it sums to {total.flatten()[:3].tolist()}, not 1")
    return probs
