"""The paper's statements about two distributions, as functions. Logarithms are base 2, so results are in
bits.

p is always the target's distribution and q the draft's. Each is a tensor, an array or a list [..., n] over
one vocabulary, and its last dimension sums to one. Results keep the leading dimensions, [...]. If an argument
is not a distribution, a ValueError says what is wrong with it.
"""

from specdec.theory.acceptance import (
    Estimate,
    ersd_acceptance,
    ersd_acceptance_by_index,
    ersd_total_variation_bound,
    estimate_ersd_acceptance_by_index,
    estimate_gsd_acceptance_by_index,
    gsd_acceptance,
    gsd_acceptance_by_index,
    poisson_matching_bound,
)
from specdec.theory.bounds import (
    GREEDY_REJECTION_CONSTANT,
    PFR_CONSTANT,
    best_lemma_m,
    expected_tokens,
    greedy_rejection_entropy_bound,
    lemma_bound,
    node_acceptance,
    pfr_entropy_bound,
    smallest_lemma_m,
    tunstall_bound,
    tunstall_leaf_bound,
)
from specdec.theory.divergences import (
    Distribution,
    entropy,
    entropy_of_rates,
    harmonic_mean_similarity,
    kl_divergence,
    total_variation,
)
from specdec.theory.several_drafts import optimal_acceptance, specinfer_acceptance, spectr_acceptance

__all__ = [
    "GREEDY_REJECTION_CONSTANT",
    "PFR_CONSTANT",
    "Distribution",
    "Estimate",
    "best_lemma_m",
    "entropy",
    "entropy_of_rates",
    "ersd_acceptance",
    "ersd_acceptance_by_index",
    "ersd_total_variation_bound",
    "estimate_ersd_acceptance_by_index",
    "estimate_gsd_acceptance_by_index",
    "expected_tokens",
    "greedy_rejection_entropy_bound",
    "gsd_acceptance",
    "gsd_acceptance_by_index",
    "harmonic_mean_similarity",
    "kl_divergence",
    "lemma_bound",
    "node_acceptance",
    "optimal_acceptance",
    "pfr_entropy_bound",
    "poisson_matching_bound",
    "smallest_lemma_m",
    "specinfer_acceptance",
    "spectr_acceptance",
    "total_variation",
    "tunstall_bound",
    "tunstall_leaf_bound",
]
