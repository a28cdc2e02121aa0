"""Upper limits of tokens per target call, from renewal theory.

The limits depend on the surprisals -log p of a text's tokens, not on the size of the vocabulary. Let S_n be
the sum of the surprisals of the first n outcomes of a text. The outcomes are independent, and their
surprisals have mean μ and second moment μ₂. A round reaches a tree node with surprisal sum S with probability
e^-S. For the nodes with S <= t, these probabilities sum to at most the expected number of n >= 1 with S_n <=
t, which is at most t / μ + μ₂ / μ² - 1 (Wald's identity; Lorden, "On excess over the boundary", 1970). Each
other node is reached with a probability of at most e^-t. So k nodes give at most

    1 + t / μ + μ₂ / μ² - 1 + k e^-t   tokens for every t >= 0; t = log(kμ) is best, in nats.

If drafts are fixed independently of the target's samples and accepted only where they equal them, outcomes
are the target's tokens (`deterministic_limit`). For GSD and ERSD they are indices of accepted children
(`renewal_bound`). `docs/theory.md` has the proofs.
"""

import math

import numpy as np
import torch
from torch import Tensor

from specdec.checks import real, whole
from specdec.theory.bounds import used_rates
from specdec.theory.divergences import Distribution, checked_distribution

_PARTS = np.concatenate([[1.0], np.round(np.geomspace(2, 1e9, 300))])


def second_log_moment(p: Distribution) -> Tensor:
    """The second moment of the surprisal, Σ p (log2 p)², in bits². The first moment is `entropy`."""
    p = checked_distribution("p", p)
    return torch.where(p > 0, p * p.log2().square(), 0).sum(-1)


def deterministic_limit(mean: float, second_moment: float, k: int) -> float:
    """The most tokens per call with k drafted tokens that are fixed independently of the target's samples and
    accepted only where they equal them.

    mean, second_moment: moments of the surprisal of the target's tokens, in bits and bits². They are means of
    `entropy` and `second_log_moment` over independent contexts. ValueError for impossible moments or k < 1.
    """
    mu, square = _nats(mean, second_moment)
    return math.inf if mu == 0 else float(_limit(np.array(mu), np.array(square), whole("k", k, 1)))


def stated_limit(mean: float, second_moment: float, k: int) -> float:
    """Pankratov and Alistarh's limit (2025) with 0 for their O(1): 1 + (μ + μ₂) log k / μ², in nats.

    The arguments are those of `deterministic_limit`. For k >= 3 the result is never below the result of that
    function, so 0 is a valid constant.
    """
    mu, square = _nats(mean, second_moment)
    return math.inf if mu == 0 else 1 + (mu + square) * math.log(whole("k", k, 1)) / mu**2


def renewal_bound(acceptance_by_index: Distribution, k: int) -> float:
    """An upper bound on the tokens per call of any tree of k drafted tokens, given the acceptance by index R.

    Let p_res be 1 minus the summed acceptance of the indices that the optimal tree uses. Splitting p_res into
    m equal outcomes gives a bound for each m, and 1 / p_res for infinite m. The result is the smallest of
    these bounds on a grid of m. ValueError as for `lemma_bound`.
    """
    rates, residual = used_rates(acceptance_by_index, k)
    surprises = -np.log(rates)
    parts = _PARTS if residual else _PARTS[:1]
    log_ratio = np.log(parts / residual) if residual else np.zeros(1)
    mu = rates @ surprises + residual * log_ratio
    square = rates @ surprises**2 + residual * log_ratio**2
    ends = [1 / residual] if residual else []
    positive = mu > 0
    return min([*_limit(mu[positive], square[positive], k).tolist(), *ends], default=math.inf)


def _limit(mu: np.ndarray, square: np.ndarray, k: int) -> np.ndarray:
    t = np.log(np.maximum(k * mu, 1.0))
    return t / mu + square / mu**2 + k * np.exp(-t)


def _nats(mean: float, second_moment: float) -> tuple[float, float]:
    mu, square = real(mean), real(second_moment)
    if mu is None or square is None or mu < 0 or square < mu * mu * (1 - 1e-9):
        raise ValueError(
            f"mean = {mean!r} and second_moment = {second_moment!r} can't be the moments of a surprisal"
        )
    return mu * math.log(2), square * math.log(2) ** 2
