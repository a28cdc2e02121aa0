"""Simulates many verifications of one position at once, and returns which drafted child each method accepts.

The decisions are those of `verify.verify_ersd` and `verify.verify_gsd` if all tokens with q > 0 are children
of one node. They are computed for many races in one vectorised operation.
"""

from __future__ import annotations

import torch
from torch import Tensor

from specdec.theory.divergences import Distribution, checked_pair


def ersd_accepted_indices(p: Distribution, q: Distribution, log_e: Tensor) -> Tensor:
    """Child index that ERSD accepts in each race (Algorithm 5 of the paper), int64 [races]; n if the draft
    can't propose the target's winner.

    p, q: [n], for n tokens. log_e: logarithms of exponentials [races, n], which draft and target share.
    """
    p, q = checked_pair(p, q)
    winners = (log_e - p.log()).argmin(-1, keepdim=True)
    drafted = (log_e - q.log()).argsort(-1)
    index = (drafted == winners).long().argmax(-1)
    return index.where(q[winners[:, 0]] > 0, p.shape[-1])


def gsd_accepted_indices(p: Distribution, q: Distribution, log_e: Tensor, uniforms: Tensor) -> Tensor:
    """For each race, the child index that GSD accepts (Algorithm 4 of the paper), int64 [races]; n for none.

    All tokens with q > 0 are children, in the order of the drafting race. p, q: the probabilities of target
    and draft, [n]. log_e: log-exponentials [races, n] of the drafting race. uniforms: a number on (0, 1) for
    each child's test, [races, n], independent of the race.
    """
    p, q = checked_pair(p, q)
    most = int((q > 0).sum())
    drafted = (log_e - q.log()).argsort(-1)[:, :most]
    index = gsd_tests(p.expand_as(log_e), q.expand_as(log_e), drafted, uniforms)
    return index.where(index < most, p.shape[-1])


def gsd_tests(p: Tensor, q: Tensor, drafted: Tensor, uniforms: Tensor) -> Tensor:
    """Index of the first drafted child that passes its test, int64 [races]; m if none does.

    p, q: [races, n], one position for each race. drafted: tokens [races, m] in order of arrival. uniforms:
    [races, m or more]. This is the loop of Algorithm 4 of the paper at one node.
    """
    most, tiny = drafted.shape[-1], torch.finfo(q.dtype).tiny
    accepted = torch.full((len(drafted),), most)
    for child_index in range(most):
        token = drafted[:, child_index, None]
        passes = (uniforms[:, child_index, None] * q.gather(-1, token) < p.gather(-1, token))[:, 0]
        accepted = torch.where(passes & (accepted == most), child_index, accepted)
        excess = (p - q).clamp_min(0)
        mass = excess.sum(-1, keepdim=True)
        p = torch.where(mass > 0, excess / mass.clamp_min(tiny), p)  # rounding may leave no residual
        q = q.scatter(-1, token, 0.0)
        q = q / q.sum(-1, keepdim=True).clamp_min(tiny)
    return accepted
