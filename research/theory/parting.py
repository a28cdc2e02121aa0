"""The probability that two distributions give different tokens: by one race, by greedy decoding, or
independently.

P and P' are the distributions of the same model in two arithmetics, after the same text. `docs/theory.md` has
the proofs.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from specdec.checks import real
from specdec.theory.acceptance import ersd_acceptance
from specdec.theory.divergences import Distribution, checked_pair


def race_parting(p: Distribution, q: Distribution) -> Tensor:
    """Probability that the winners of one race under P and P' differ, exact: 1 - `ersd_acceptance`.

    It lies between D_TV and `race_parting_bound` of D_TV.
    """
    return (1 - ersd_acceptance(p, q)).clamp_min(0)


def race_parting_bound(distance: float) -> float:
    """2 D_TV / (1 + D_TV): an upper bound of `race_parting` (Daliri, Musco and Suresh, 2024).

    distance: D_TV of P and P'. ValueError if it is not between 0 and 1.
    """
    distance = _checked_distance(distance)
    return 2 * distance / (1 + distance)


def first_parting_bound(distance: float) -> float:
    """(1 + D_TV) / (2 D_TV): a lower bound of the mean index of the first different token, counted from 1.

    distance: an upper bound of D_TV after every text. Infinite if it is 0.
    """
    bound = race_parting_bound(distance)
    return 1 / bound if bound else math.inf


def race_parting_rate(p: Distribution, direction: Distribution) -> Tensor:
    """The derivative of `race_parting` of P and P (1 + ε h) at ε = 0: E|h(I) - h(J)| / 2, with I and J drawn
    from P.

    direction: h [..., n], with Σ p h = 0. The derivative of D_TV is E|h(I)| / 2. If h is normal and does not
    depend on p, the quotient of both is √2.
    """
    h = torch.as_tensor(direction, dtype=torch.float64)
    p, _ = checked_pair(p, p)
    order = h.argsort(-1)
    p, h = p.gather(-1, order), h.gather(-1, order)
    below = p.cumsum(-1)
    return ((h[..., 1:] - h[..., :-1]) * below[..., :-1] * (1 - below[..., :-1])).sum(-1)


def independent_parting(p: Distribution, q: Distribution) -> Tensor:
    """1 - Σ p p': the probability that independent samples of P and P' differ."""
    p, q = checked_pair(p, q)
    return 1 - (p * q).sum(-1)


def greedy_parting(p: Distribution, q: Distribution) -> Tensor:
    """1 if the most probable tokens of P and P' differ, otherwise 0.

    No bound below 1 follows from D_TV.
    """
    p, q = checked_pair(p, q)
    return (p.argmax(-1) != q.argmax(-1)).double()


def _checked_distance(distance: float) -> float:
    value = real(distance)
    if value is None or not 0 <= value <= 1:
        raise ValueError(f"distance = {distance!r} is not a total variation distance, from 0 to 1")
    return value
