"""The most that any rule can accept of a position, for the record of a round; outside the hot path."""

from __future__ import annotations

import torch
from torch import Tensor

from specdec import theory
from specdec.methods import Drafted

MOST_TOKENS = 65_536
"""Largest vocabulary for which it is computed for several drafts: above, a position takes longer than 20 ms.
One draft takes less than 1 ms at 150,000 tokens."""


def optimum(drafted: Drafted, row: int, log_p: Tensor) -> float | None:
    """The highest probability with which any rule can accept a child of this row; see `trace.Step`.

    None where it is not defined. log_p: [vocabulary].
    """
    log_q, replacement = drafted.log_q[row], bool(drafted.draws)
    drafts = drafted.draws[row] if replacement else drafted.topology.children[row]
    if log_q is None or not drafts or (len(drafts) > 1 and len(log_p) > MOST_TOKENS):
        return None
    p, q = (log.double().exp() for log in (log_p, log_q.to(log_p.device)))
    p, q = p / p.sum(), q / q.sum()
    if len(drafts) == 1:  # most positions; the same without checking the distributions
        return float(torch.minimum(p, q).sum())
    return float(theory.optimal_acceptance(p, q, len(drafts), replacement))
