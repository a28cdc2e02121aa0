"""Expected tokens per round and their upper bounds, and the entropy bounds of channel simulation.

The bounds of expected tokens assume that all nodes have the same R, the probabilities with which a node's
first, second, ... child is accepted. On real text R varies, and the entropy of the mean R is at least the
mean entropy. A bound computed from a mean R is therefore not guaranteed on real text.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from torch import Tensor

from specdec.checks import real, whole
from specdec.optimal import checked_acceptance, optimal_topology
from specdec.theory.divergences import Distribution, as_tensor, entropy_of_rates
from specdec.topology import Path, Topology

PFR_CONSTANT = 4.0
"""The Poisson functional representation needs at most this many bits more than D_KL + log(D_KL + 1): Li and
El Gamal, 2018."""

GREEDY_REJECTION_CONSTANT = 1 + math.log2(math.e + 1)
"""Greedy rejection sampling needs at most this many bits (2.895) more than D_KL + log(D_KL + 1). This follows
from H <= D_CS + log(e + 1) (Goc and Flamich, "On channel simulation with causal rejection samplers", 2024),
whose D_CS is at most D_KL + log(D_KL + 1) + 1. The constant of Harsha et al. (2010) is O(1)."""

_GRID = 512
_LARGEST_M = 1e300
Bits = TypeVar("Bits", float, Tensor)


def expected_tokens(acceptance_by_index: Distribution | Callable[[Path], float], topology: Topology) -> float:
    """Expected tokens per round: 1 + Σ over drafted nodes of R(path), the sum of Equation 4 of the paper.

    acceptance_by_index: either R by index [n], where R(path) is the product of R over the path's child
    indices and R is 0 for an index of n or more; or a callable path -> R(path). ValueError if a value is not
    a probability or if their sum exceeds 1.
    """
    return math.fsum(node_acceptance(acceptance_by_index, topology))


def node_acceptance(
    acceptance_by_index: Distribution | Callable[[Path], float], topology: Topology
) -> list[float]:
    """R(path) of Equation 3 of the paper for each row: the probability that all nodes of the row's path are
    accepted; 1 at the root.

    Arguments as in `expected_tokens`.
    """
    if not isinstance(topology, Topology):
        raise ValueError(f"topology = {topology!r} is not a Topology")
    if callable(acceptance_by_index):
        return [1.0, *(_checked_rate(acceptance_by_index(path), path) for path in topology.paths)]
    rates = _checked_rates(acceptance_by_index)
    reach = [1.0]
    for parent, child_index in zip(topology.parents[1:], topology.child_indices[1:], strict=True):
        reach.append(reach[parent] * (rates[child_index] if child_index < len(rates) else 0.0))
    return reach


def _checked_rates(acceptance_by_index: Distribution) -> list[float]:
    """Checks R by child index. R may be zero everywhere, which is not allowed when a tree is built from R."""
    try:
        rates = [_checked_rate(rate, i) for i, rate in enumerate(acceptance_by_index)]
    except TypeError:
        raise ValueError(
            f"acceptance_by_index = {acceptance_by_index!r} is not a list of probabilities"
        ) from None
    if math.fsum(rates) > 1 + 1e-6:
        raise ValueError(f"acceptance_by_index sums to {math.fsum(rates)}, which is more than 1")
    return rates


def _checked_rate(value: float, where: int | Path) -> float:
    rate = real(value)
    if rate is None or not 0 <= rate <= 1 + 1e-6:
        raise ValueError(f"acceptance_by_index at {where} = {value!r} is not a probability")
    return rate


def tunstall_bound(acceptance_by_index: Distribution, vocab_size: int, k: int) -> float:
    """(log|Ω| + log(k + 1)) / H[R] (Theorem 4.1 of the paper): an upper bound of the expected tokens per
    round, for all trees of k drafted tokens.

    acceptance_by_index: R(i) [n], summing to at most 1. The probability that R lacks to 1 counts as one more
    outcome. This can only lower the entropy, so the result is still an upper bound. It is infinite if H[R] is
    0. ValueError if R is not an acceptance by index or has more indices than there are tokens, or if k or
    vocab_size is not a positive integer.
    """
    rates = _rates_of_tokens(acceptance_by_index, vocab_size, k)
    return _ratio(math.log2(vocab_size) + math.log2(k + 1), entropy_of_rates(rates))


def tunstall_leaf_bound(acceptance_by_index: Distribution, vocab_size: int, k: int) -> float:
    """log(k(|Ω| - 1) + |Ω|) / H[R] (Appendix C of the paper): Theorem 4.1 with the exact number of leaves, so
    it is a tighter bound."""
    rates = _rates_of_tokens(acceptance_by_index, vocab_size, k)
    leaves = k * (vocab_size - 1) + vocab_size
    return _ratio(math.log2(leaves), entropy_of_rates(rates))


def lemma_bound(acceptance_by_index: Distribution, k: int, m: int | None = None) -> float:
    """(log(d + m) + log(k + 1)) / (H[R_1..R_d, p_res] + p_res log m) (Lemma 4.2 of the paper, "upper bound
    m"): an upper bound of the expected tokens per round, for all trees of k drafted tokens.

    d is the number of child indices in the optimal tree of k tokens, and p_res = 1 - Σ_{i<d} R(i). m: any
    integer of at least `smallest_lemma_m`; ValueError if it is smaller. None gives the smallest bound over
    all m, including its limit 1 / p_res for m → ∞. If R is not decreasing, it is sorted first. The bound
    still holds: every tree yields at most as many tokens under R as some tree under the sorted R.
    """
    rates, residual = used_rates(acceptance_by_index, k)
    least = _smallest_m(rates, residual)
    if m is not None and whole("m", m, least) > _LARGEST_M:
        raise ValueError(f"m = {m!r:.40}... is more than {_LARGEST_M:g}")
    if m is None:
        smallest = _smallest_over_m(rates, residual, k, least, _LARGEST_M)[1]
        return min(smallest, 1 / residual) if residual else smallest
    return float(_lemma(rates, residual, k, np.array([float(m)]))[0])


def smallest_lemma_m(acceptance_by_index: Distribution, k: int) -> int:
    """The smallest m of Lemma 4.2 of the paper (`lemma_bound`): max(1, p_res / min_{i<d} R(i)), rounded
    up."""
    return _smallest_m(*used_rates(acceptance_by_index, k))


def best_lemma_m(acceptance_by_index: Distribution, k: int, most: float = 1e9) -> int:
    """The m up to `most` for which the bound of Lemma 4.2 of the paper is smallest.

    If even the smallest valid m is above `most`, the result is that m. ValueError if `most` is below 1.
    """
    largest = real(most)
    if largest is None or not 1 <= largest <= _LARGEST_M:
        raise ValueError(f"most = {most!r} is not a number from 1 to {_LARGEST_M:g}")
    rates, residual = used_rates(acceptance_by_index, k)
    least = _smallest_m(rates, residual)
    return int(_smallest_over_m(rates, residual, k, least, float(max(least, largest)))[0])


def pfr_entropy_bound(kl: Bits) -> Bits:
    """D_KL + log(D_KL + 1) + 4 bits: upper bound of the Poisson functional representation's index entropy.

    Equation 8 of the paper. kl: D_KL[P || Q] in bits, a number or a tensor. The entropy of ERSD's child index
    is never larger than that of this index, so the bound holds for ERSD too.
    """
    return _entropy_bound(kl, PFR_CONSTANT)


def greedy_rejection_entropy_bound(kl: Bits) -> Bits:
    """D_KL + log(D_KL + 1) + 2.895 bits: upper bound of the index entropy of greedy rejection sampling.

    This is Equation 7 of the paper for every ε, with the number `GREEDY_REJECTION_CONSTANT` for its O(1).
    """
    return _entropy_bound(kl, GREEDY_REJECTION_CONSTANT)


def _entropy_bound(kl: Bits, constant: float) -> Bits:
    value: Any = kl
    bits = as_tensor(value)
    if bits is None or not (bits >= 0).all() or (bits.dim() and not isinstance(kl, Tensor)):
        raise ValueError(f"kl = {kl!r:.60} is not a divergence: it must be 0 bits or more")
    bound = bits + (bits + 1).log2() + constant
    return bound if isinstance(kl, Tensor) else float(bound)


def used_rates(acceptance_by_index: Distribution, k: int) -> tuple[np.ndarray, float]:
    """The rates that the optimal tree of k tokens uses, one for each of its child indices, in falling order;
    and p_res (see `lemma_bound`)."""
    rates = np.sort(checked_acceptance(acceptance_by_index))[::-1]
    rates = rates[: 1 + max(optimal_topology(rates, k).child_indices)]
    residual = 1 - math.fsum(rates)
    # A p_res below the rounding error counts as 0.
    return rates, residual if residual > 1e-12 else 0.0


def _smallest_m(rates: np.ndarray, residual: float) -> int:
    rarest = float(rates.min())
    if residual / rarest > _LARGEST_M:
        raise ValueError(
            f"acceptance_by_index has {rarest}, too small: m of Lemma 4.2 would be more than {_LARGEST_M:g}"
        )
    return max(1, math.ceil(residual / rarest - 1e-9))


def _lemma(rates: np.ndarray, residual: float, k: int, m: np.ndarray) -> np.ndarray:
    denominator = entropy_of_rates(rates) + residual * np.log2(m)
    numerator = np.log2(len(rates) + m) + math.log2(k + 1)
    return np.divide(numerator, denominator, out=np.full_like(m, np.inf), where=denominator > 0)


def _smallest_over_m(
    rates: np.ndarray, residual: float, k: int, least: int, most: float
) -> tuple[float, float]:
    """The integer m from `least` to `most` with the smallest bound, and this bound. It is searched on a
    logarithmic grid, which is refined around the best point."""
    if not residual:
        return least, float(_lemma(rates, residual, k, np.array([float(least)]))[0])
    low, high = float(least), most
    while True:
        grid = np.unique(np.round(np.geomspace(low, high, _GRID)))
        values = _lemma(rates, residual, k, grid)
        best = int(values.argmin())
        low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
        # Stop when the grid's steps are 1, or as small as floating point allows.
        if high - low <= 2 or high <= low * (1 + 1e-12):
            return float(grid[best]), float(values[best])


def _ratio(numerator: float, denominator: float) -> float:
    return numerator / denominator if denominator > 0 else math.inf


def _rates_of_tokens(acceptance_by_index: Distribution, vocab_size: int, k: int) -> np.ndarray:
    rates = checked_acceptance(acceptance_by_index)
    whole("k", k, 1)
    if whole("vocab_size", vocab_size, 1) < len(rates):
        raise ValueError(
            f"vocab_size = {vocab_size}, but acceptance_by_index has {len(rates)} entries: a token has at "
            f"most as many alternatives as there are tokens"
        )
    return rates
