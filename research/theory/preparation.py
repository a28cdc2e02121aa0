"""The probability that the right continuation was prepared while the target verified.

A round ends at a node, with a token that is not among the node's drafted children. Under ERSD this token is
an arrival of the node's race, so the next arrivals under the draft predict it. This is not in the paper. For
other rules, see Kumar, Dao and May, "Speculative speculative decoding", 2026.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from specdec import Topology
from specdec.checks import whole
from specdec.theory.bounds import node_acceptance
from specdec.theory.divergences import Distribution, checked_pair
from specdec.topology import Path


def ersd_preparation_hit(acceptance_by_index: Sequence[float], drafted: int, m: int) -> float:
    """The probability that ERSD's token is among the next m arrivals, after `drafted` children were rejected.

    Σ_{drafted <= i < drafted + m} R(i) / (1 - Σ_{i < drafted} R(i)). NaN if no token is ever rejected.
    """
    rates = np.asarray(acceptance_by_index, dtype=float)
    drafted, m = whole("drafted", drafted, 0), whole("m", m, 1)
    rejected = 1 - math.fsum(rates[:drafted])
    return math.fsum(rates[drafted : drafted + m]) / rejected if rejected > 1e-12 else math.nan


def gsd_preparation_hit(p: Distribution, q: Distribution, m: int) -> Tensor:
    """The probability that GSD's token after one rejected draft is among m guesses.

    The guesses are the m tokens of the largest q, without the rejected token. GSD's token comes from the
    residual max(p - q, 0). The residual does not depend on the rejected token, and gives it probability 0.
    The result [...] is NaN where p = q.
    """
    p, q = checked_pair(p, q)
    m = whole("m", m, 1)
    excess, deficit = (p - q).clamp_min(0), (q - p).clamp_min(0)
    order = q.argsort(-1, descending=True)[..., : m + 1]
    gain, loss = excess.gather(-1, order), deficit.gather(-1, order)
    if order.shape[-1] <= m:  # m covers all tokens
        return torch.ones_like(p[..., 0]).where(excess.sum(-1) > 0, math.nan)
    # if the rejected token is among the first m, token m + 1 becomes a guess in its place
    inside = gain[..., :m].sum(-1) + gain[..., m] * loss[..., :m].sum(-1) / deficit.sum(-1)
    return inside / excess.sum(-1)


def prepared_outcomes(
    acceptance_by_index: list[float], topology: Topology, m: int
) -> tuple[list[tuple[Path, int]], float]:
    """The m most probable ends of a round, and the probability that a round ends at one of them.

    An end is the path of the last accepted node, with the child index that the next token would have. All
    nodes have the same acceptance by index, as in `expected_tokens`.
    """
    probabilities, paths = node_acceptance(acceptance_by_index, topology), [(), *topology.paths]
    ends = [
        (probabilities[row] * float(rate), (path, index))
        for row, path in enumerate(paths)
        for index, rate in enumerate(acceptance_by_index)
        if index >= len(topology.children[row])
    ]
    best = sorted(ends, key=lambda end: -end[0])[: whole("m", m, 1)]
    return [end for _, end in best], math.fsum(chance for chance, _ in best)
