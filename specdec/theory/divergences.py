"""Measures of how far two distributions are from each other."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from specdec.checks import reals

Distribution = Tensor | np.ndarray | list | tuple
"""The type of a distribution: probabilities [..., n] whose last dimension sums to one."""

_SUM_TOLERANCE = 1e-4
"""The largest difference between the sum of a distribution and one. A float32 softmax over 150,000 tokens has
a smaller error."""


def total_variation(p: Distribution, q: Distribution) -> Tensor:
    """D_TV[P, Q] = 1/2 Σ |p - q| (Section 3 of the paper), between 0 and 1."""
    p, q = checked_pair(p, q)
    return (p - q).abs().sum(-1) / 2


def harmonic_mean_similarity(p: Distribution, q: Distribution) -> Tensor:
    """D_HM[P, Q] = Σ p q / (p + q) (Equation 2 of the paper, Lemma 3.1): 1/2 at P = Q and never more."""
    p, q = checked_pair(p, q)
    return torch.where(p + q > 0, p * q / (p + q), 0).sum(-1)


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """D_KL[P || Q] = Σ p log(p / q) (Equation 6 of the paper) in bits; infinite if p > 0 at a token where q
    is 0."""
    p, q = checked_pair(p, q)
    return torch.where(p > 0, p * (p.log2() - q.log2()), 0).sum(-1).clamp_min(0)


def entropy(p: Distribution) -> Tensor:
    """H[P] = -Σ p log p (Equation 5 of the paper) in bits."""
    p = checked_distribution("p", p)
    return -torch.where(p > 0, p * p.log2(), 0).sum(-1).clamp_max(0)


def entropy_of_rates(rates: Sequence[float] | np.ndarray) -> float:
    """H[R] in bits, for acceptance rates R by child index [n] (Theorem 4.1 of the paper).

    The probability that the rates lack to 1 counts as one more outcome, so the result is at most the entropy
    over all indices.
    """
    missing = 1 - math.fsum(rates)
    return float(entropy([*rates, missing if missing > 1e-12 else 0.0]))


def checked_pair(p: Distribution, q: Distribution) -> tuple[Tensor, Tensor]:
    """Check two distributions, and return them as float64, normalised and broadcast to one shape.

    ValueError if one of them is not a distribution, or if they have different numbers of outcomes.
    """
    p, q = checked_distribution("p", p), checked_distribution("q", q)
    if p.shape[-1] != q.shape[-1]:
        raise ValueError(f"p has {p.shape[-1]} outcomes and q {q.shape[-1]}; both need the same vocabulary")
    try:
        return torch.broadcast_tensors(p, q)
    except RuntimeError:
        raise ValueError(f"p {tuple(p.shape)} and q {tuple(q.shape)} do not broadcast") from None


def checked_distribution(name: str, value: Distribution) -> Tensor:
    """Check a distribution, and return it as float64 [..., n], normalised.

    A ValueError names the argument and says what is wrong.
    """
    probs = as_tensor(value)
    if probs is None:
        raise ValueError(f"{name} = {value!r:.60} is not a distribution: its entries must be real numbers")
    probs = probs.detach()
    if probs.dim() < 1 or not probs.shape[-1] or not torch.isfinite(probs).all() or (probs < 0).any():
        raise ValueError(f"{name} = {value} is not a distribution: its entries must be numbers of at least 0")
    total = probs.sum(-1, keepdim=True)
    if ((total - 1).abs() > _SUM_TOLERANCE).any():
        raise ValueError(f"{name} is not a distribution: it sums to {total.flatten()[:3].tolist()}, not 1")
    return probs / total


def as_tensor(value: Distribution) -> Tensor | None:
    """The argument as a float64 tensor on the argument's device; None if it does not hold real numbers."""
    if isinstance(value, Tensor):
        return None if value.is_complex() else value.double()
    array = reals(value)
    return None if array is None else torch.from_numpy(array)
