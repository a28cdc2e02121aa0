"""Estimates with their standard errors, and the loop over a batch of distributions."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from specdec.checks import whole
from specdec.race import checked_seed
from specdec.theory.divergences import Distribution, checked_pair
from specdec.topology import MAX_DRAFT_TOKENS

_LEAST = 1e-300
_MOST_SAMPLES = 10_000_000


class Estimate(NamedTuple):
    """A value and its standard error, of one shape; the error is 0 if the value is exact."""

    value: Tensor
    standard_error: Tensor


Law = Callable[[np.ndarray, np.ndarray, int, int, np.random.Generator], tuple[np.ndarray, np.ndarray]]
"""(p, q, k, samples, generator) -> values [k] and standard errors [k], for one pair of distributions."""


def by_row(distribution: Law, p: Distribution, q: Distribution, k: int, samples: int, seed: int) -> Estimate:
    """R (Equation 3) of each pair in a batch, [..., k]; pairs are simulated independently."""
    p, q = checked_pair(p, q)
    k, samples = whole("k", k, 1, MAX_DRAFT_TOKENS), whole("samples", samples, 2, _MOST_SAMPLES)
    generator, size = np.random.default_rng(checked_seed(seed)), p.shape[-1]
    result = np.zeros((2, p[..., 0].numel(), k))
    rows = zip(p.reshape(-1, size).cpu().numpy(), q.reshape(-1, size).cpu().numpy(), strict=True)
    for row, (p_row, q_row) in enumerate(rows):
        drafted = min(k, int((q_row > 0).sum()))
        # p / q of what is hardly ever drafted must stay a number; it changes nothing that can be seen
        q_row = np.where(q_row > 0, np.maximum(q_row, _LEAST), 0)
        result[:, row, :drafted] = distribution(p_row, q_row, drafted, samples, generator)
    value, error = torch.from_numpy(result).reshape(2, *p.shape[:-1], k).to(p.device)
    return Estimate(value, error)
