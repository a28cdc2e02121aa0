"""Many verifications of one position at once: which drafted child each method accepts, race by race.

The same decisions as `verify.verify_ersd` and `verify.verify_gsd` take on a batch of all children that the
draft's support allows, vectorised over races.
"""

from __future__ import annotations

import torch
from torch import Tensor

from specdec.probs import residual
from specdec.race import log_arrival_times
from specdec.theory.divergences import Distribution, checked_pair


def ersd_accepted_indices(p: Distribution, q: Distribution, log_e: Tensor) -> Tensor:
    """Child index that ERSD accepts, int64 [races]; n where the target's winner is not drafted.

    p, q: [n]. log_e: log-exponentials [races, n], shared by both races.
    """
    p, q = checked_pair(p, q)
    winners = log_arrival_times(p.log(), log_e).argmin(-1, keepdim=True)
    drafted = log_arrival_times(q.log(), log_e).argsort(-1)
    index = (drafted == winners).long().argmax(-1)
    return index.where(q[winners[:, 0]] > 0, p.shape[-1])


def gsd_accepted_indices(p: Distribution, q: Distribution, log_e: Tensor, uniforms: Tensor) -> Tensor:
    """Child index that GSD accepts, int64 [races]; n where all children are rejected.

    p, q: [n]. log_e: log-exponentials [races, n] of the drafting race. uniforms: on (0, 1) [races, n], of
    each child's test and independent of the race.
    """
    p, q = checked_pair(p, q)
    drafted = log_arrival_times(q.log(), log_e).argsort(-1)
    accepted = torch.full((len(log_e),), p.shape[-1])
    target, draft = p.expand_as(log_e), q.expand_as(log_e)
    for child_index in range(int((q > 0).sum())):
        token = drafted[:, child_index, None]
        p_x, q_x = target.gather(-1, token), draft.gather(-1, token)
        passed = (uniforms[:, child_index, None] * q_x < p_x)[:, 0] & (accepted == p.shape[-1])
        accepted = torch.where(passed, child_index, accepted)
        target = residual(target, draft)
        draft = draft.scatter(-1, token, 0.0)
        draft = draft / draft.sum(-1, keepdim=True).clamp_min(torch.finfo(draft.dtype).tiny)
    return accepted
