"""The distance of a draft from its target, position by position, as losses for training."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Gap(NamedTuple):
    """The distance of the draft from the target by three measures: means, or one entry per position."""

    kl: Tensor  # KL divergence from the target, nats
    tv: Tensor  # total variation: GSD's probability of rejecting the first draft
    race: Tensor  # ERSD's probability of rejecting the first draft


def gap_of(p: Tensor, q: Tensor, inside: Tensor | None = None, with_race: bool = True) -> Gap:
    """The gap at each position. Only the target's most probable tokens are kept; the others are one outcome.

    p, q: probabilities of the kept tokens, [positions, top]. inside: which of them the draft scores, None for
    all; q is 0 for the others. with_race: False sets `race` to 0, because computing it requires sorting.
    """
    inside = torch.ones_like(p, dtype=torch.bool) if inside is None else inside
    q, known = q * inside, p * inside
    p_rest, q_rest = ((1 - each.sum(-1, keepdim=True)).clamp(min=1e-6) for each in (p, q))
    never = (p * ~inside).sum(-1, keepdim=True)
    of_p = torch.cat([known, p_rest, never], -1)
    of_q = torch.cat([q, q_rest, torch.zeros_like(q_rest)], -1)
    scored_p, scored_q = of_p[:, :-1].clamp(min=1e-20), of_q[:, :-1].clamp(min=1e-20)
    kl = (of_p[:, :-1] * (scored_p.log() - scored_q.log())).sum(-1)
    tv = (of_p - of_q).abs().sum(-1) / 2
    race = torch.zeros_like(tv)
    if with_race:
        race = 1 - race_agreement(of_p.clamp(min=1e-8), of_q.clamp(min=1e-8))
    return Gap(kl, tv, race)


def race_agreement(p: Tensor, q: Tensor) -> Tensor:
    """ERSD's acceptance of the first drafted token, Σ_i 1 / Σ_j max(p_j/p_i, q_j/q_i), in O(n log n).

    The result is differentiable. If tokens are sorted by falling p/q, the maximum is p_j/p_i for j before i,
    and q_j/q_i for the others.
    """
    order = (p / q).argsort(-1, descending=True)
    p, q = p.gather(-1, order), q.gather(-1, order)
    p_before, q_from = p.cumsum(-1) - p, q.flip(-1).cumsum(-1).flip(-1)
    return (1 / (p_before / p + q_from / q)).sum(-1)
