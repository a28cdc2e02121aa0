"""The most that any rule can accept of a position, for the record of a round; outside the hot path."""

from __future__ import annotations

import torch
from torch import Tensor

from specdec import theory
from specdec.methods import Drafted

MOST_DRAFTS, MOST_TOKENS = 16, 16_384
"""It is not computed above this number of drafts, or for several drafts of more tokens than this with q > 0:
a position would take longer than 10 ms. For one draft it takes less than 1 ms at 150,000 tokens.
"""


def optimum(drafted: Drafted, row: int, log_p: Tensor) -> float | None:
    """The highest probability with which any rule can accept a child of this row; see `trace.Step`.

    None where it is not defined. log_p: [vocabulary].
    """
    log_q, replacement = drafted.log_q[row], bool(drafted.draws)
    drafts = drafted.draws[row] if replacement else drafted.topology.children[row]
    if log_q is None or not drafts or len(drafts) > MOST_DRAFTS:
        return None
    p, q = (log.double().exp() for log in (log_p, log_q.to(log_p.device)))
    p, q = p / p.sum(), q / q.sum()
    if len(drafts) == 1:  # most positions; the same without checking the distributions
        return float(torch.minimum(p, q).sum())
    if int((q > 0).sum()) > MOST_TOKENS:
        return None
    return float(theory.optimal_acceptance(p, q, len(drafts), replacement))
