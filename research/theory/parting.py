"""The probability that two distributions give different tokens: with one shared race, with greedy decoding,
or with independent samples.

P and P' are the distributions of one model in two arithmetics, after the same text. `docs/theory.md` has the
proofs.
"""

import torch
from torch import Tensor

from specdec.theory.acceptance import ersd_acceptance
from specdec.theory.divergences import Distribution, checked_pair


def race_parting(p: Distribution, q: Distribution) -> Tensor:
    """The exact probability that the winners of one race under P and under P' differ: 1 - `ersd_acceptance`.

    It lies between D_TV and 2 D_TV / (1 + D_TV), which is 1 - `ersd_total_variation_bound` (Daliri, Musco and
    Suresh, 2024).
    """
    return (1 - ersd_acceptance(p, q)).clamp_min(0)


def race_parting_rate(p: Distribution, direction: Distribution) -> Tensor:
    """The derivative of `race_parting` of P and P (1 + ε h) at ε = 0: E|h(I) - h(J)| / 2, with I and J drawn
    from P.

    direction: h [..., n], with Σ p h = 0. The derivative of D_TV is E|h(I)| / 2. If h is normal and does not
    depend on p, the quotient of the two derivatives is √2.
    """
    h = torch.as_tensor(direction, dtype=torch.float64)
    p, _ = checked_pair(p, p)
    order = h.argsort(-1)
    p, h = p.gather(-1, order), h.gather(-1, order)
    below = p.cumsum(-1)
    return ((h[..., 1:] - h[..., :-1]) * below[..., :-1] * (1 - below[..., :-1])).sum(-1)


def independent_parting(p: Distribution, q: Distribution) -> Tensor:
    """The probability that independent samples of P and P' differ: 1 - Σ p p'."""
    p, q = checked_pair(p, q)
    return 1 - (p * q).sum(-1)


def greedy_parting(p: Distribution, q: Distribution) -> Tensor:
    """1 if P and P' have different most probable tokens, otherwise 0.

    They can have different ones however small D_TV is.
    """
    p, q = checked_pair(p, q)
    return (p.argmax(-1) != q.argmax(-1)).double()
