"""Each function of the theory is compared with an independent computation, and the paper's inequalities are
tested on many pairs."""

import itertools
import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, special

from specdec import algorithms, theory
from specdec.optimal import optimal_topology
from specdec.theory import ersd_by_index, gsd_by_index
from specdec.topology import Topology, batch, sequence

SIGMAS = 5.5
"""Largest deviation in standard errors; a correct value exceeds it with probability 4e-8."""

EXTREME = ((0.01, 0.99), (0.99, 0.01))
BY_INDEX = theory.gsd_acceptance_by_index, theory.ersd_acceptance_by_index
SEVERAL = theory.specinfer_acceptance, theory.spectr_acceptance, theory.optimal_acceptance


def random_pairs(count, largest=6, seed=0):
    """Pairs [n] from nearly uniform to nearly one-hot, some with tokens that one side lacks."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        n = int(rng.integers(2, largest + 1))
        p, q = (rng.dirichlet([rng.choice([0.05, 0.3, 1.0, 5.0])] * n) for _ in "pq")
        if number % 4 == 1:
            p[0] = 0
        if number % 4 == 2:
            q[0] = 0
        p, q = (x + (not x.any()) for x in (p, q))
        yield p / p.sum(), q / q.sum()


@st.composite
def pairs(draw):
    n = draw(st.integers(2, 8))
    weight = st.floats(0, 1).map(lambda x: x**3) | st.just(0.0)
    p, q = (np.array(draw(st.lists(weight, min_size=n, max_size=n))) + 1e-9 for _ in "pq")
    return p / p.sum(), q / q.sum()


def gsd_joint(p, q):
    """Exact {(child index, token): probability that this child is accepted with this token}, in rationals.

    This is the paper's Algorithm 4 step by step, over all drafts without replacement.
    """
    joint = {}

    def child(p, q, weight, index):
        for x in np.flatnonzero(q):
            accepted = min(Fraction(1), p[x] / q[x])
            joint[index, x] = joint.get((index, x), 0) + weight * q[x] * accepted
            draft = algorithms.without(q, x)
            if accepted < 1 and draft.any():
                child(algorithms.residual(p, q), draft, weight * q[x] * (1 - accepted), index + 1)

    child(rational(p), rational(q), Fraction(1), 0)
    return joint


def ersd_joint(p, q):
    """The same for ERSD: the winner under P and its rank under Q.

    The rank is a sum of independent indicators 1 - exp(-a_j t) given the time t; the products expand into
    exponentials, each with the integral ∫ e^-t e^-ct dt = 1 / (1 + c).
    """
    p, q, joint = rational(p), rational(q), {}
    for i in (i for i in range(len(p)) if p[i] and q[i]):
        rates = [max(Fraction(0), q[j] * p[i] / q[i] - p[j]) for j in range(len(p)) if j != i]
        for early in itertools.product([False, True], repeat=len(rates)):
            late = sum(a for a, is_early in zip(rates, early, strict=True) if not is_early)
            sums = [(1, late)]
            for a in (a for a, is_early in zip(rates, early, strict=True) if is_early):
                sums += [(-sign, rate + a) for sign, rate in sums]
            mass = p[i] * sum(sign / (1 + rate) for sign, rate in sums)
            joint[sum(early), i] = joint.get((sum(early), i), 0) + mass
    return joint


def rational(probabilities):
    values = np.array([Fraction(float(x)) for x in probabilities])
    return values / values.sum()


def by_index(joint, n):
    return [float(sum(mass for (index, _), mass in joint.items() if index == i)) for i in range(n)]


# Divergences


@settings(derandomize=True, deadline=None)
@given(pairs())
def test_divergences_equal_their_definitions(pair):
    p, q = pair
    assert float(theory.total_variation(p, q)) == pytest.approx(1 - np.minimum(p, q).sum(), abs=1e-12)
    kl = special.rel_entr(p, q).sum() / math.log(2)
    assert float(theory.kl_divergence(p, q)) == pytest.approx(kl, rel=1e-9, abs=1e-12)
    assert float(theory.entropy(p)) == pytest.approx(special.entr(p).sum() / math.log(2), abs=1e-12)
    harmonic = sum(1 / (1 / a + 1 / b) for a, b in zip(p, q, strict=True))
    assert float(theory.harmonic_mean_similarity(p, q)) == pytest.approx(harmonic, abs=1e-12)


def test_divergences_of_equal_and_of_disjoint_distributions():
    p, disjoint = [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]
    assert float(theory.harmonic_mean_similarity(p, p)) == 0.5
    assert (float(theory.kl_divergence(p, p)), float(theory.kl_divergence(p, disjoint))) == (0, math.inf)
    assert float(theory.total_variation(p, disjoint)) == 1
    for acceptance in (theory.gsd_acceptance, theory.ersd_acceptance):
        assert float(acceptance(p, p)) == pytest.approx(1, abs=1e-15)
        assert float(acceptance(p, disjoint)) == 0


PAIRWISE = [theory.total_variation, theory.harmonic_mean_similarity, theory.kl_divergence]
PAIRWISE += [theory.gsd_acceptance, theory.ersd_acceptance]
PAIRWISE += [theory.ersd_total_variation_bound, theory.poisson_matching_bound]
PAIRWISE += [lambda p, q, function=function: function(p, q, 3) for function in (*BY_INDEX, *SEVERAL)]


@pytest.mark.parametrize("function", PAIRWISE)
def test_a_batch_is_its_rows_whatever_the_container(function):
    rng = np.random.default_rng(0)
    p, q = rng.dirichlet(np.ones(5), (2, 3)), rng.dirichlet(np.ones(5), (2, 3))
    p.flags.writeable = False
    values = function(p, q)
    assert values.shape[:2] == (2, 3)
    for i, j in itertools.product(range(2), range(3)):
        torch.testing.assert_close(values[i, j], function(p[i, j].tolist(), torch.tensor(q[i, j])))
    torch.testing.assert_close(function(p, q[0, 0]), function(p, np.broadcast_to(q[0, 0], p.shape)))
    of_floats = function(torch.tensor(p).float(), torch.tensor(q).float())
    torch.testing.assert_close(of_floats, values, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    ("p", "q", "message"),
    [
        ([0.5, 0.4], [0.5, 0.5], "p is not a distribution: it sums to"),
        ([0.5, 0.5], [1.5, -0.5], "q = .* is not a distribution"),
        ([0.5, math.nan], [0.5, 0.5], "p = .* is not a distribution"),
        ([0.5, 0.5], [0.5, 0.25, 0.25], "p has 2 outcomes and q 3"),
        ([], [0.5, 0.5], "p = .* is not a distribution"),
        (0.5, [0.5, 0.5], "p = .* is not a distribution"),
        ("ab", [0.5, 0.5], "p = 'ab' is not a distribution"),
        (torch.tensor([0.5 + 1j, 0.5]), [0.5, 0.5], "p = .* is not a distribution"),
        (np.full((2, 2), 0.5), np.full((3, 2), 0.5), "do not broadcast"),
    ],
)
def test_errors_name_what_is_no_distribution(p, q, message):
    for function in PAIRWISE:
        with pytest.raises(ValueError, match=message):
            function(p, q)


# First acceptance


@settings(derandomize=True, deadline=None)
@given(pairs())
def test_ersd_first_acceptance_equals_the_double_sum_and_keeps_its_bounds(pair):
    p, q = pair
    double_sum = sum(1 / np.maximum(p / p[i], q / q[i]).sum() for i in range(len(p)))
    ersd = float(theory.ersd_acceptance(p, q))
    assert ersd == pytest.approx(double_sum, abs=1e-12)
    assert float(theory.harmonic_mean_similarity(p, q)) <= ersd + 1e-12
    assert float(theory.ersd_total_variation_bound(p, q)) <= ersd + 1e-12
    assert ersd <= float(theory.gsd_acceptance(p, q)) + 1e-12


def test_neither_lower_bound_of_ersd_dominates_the_other():
    bounds = theory.ersd_total_variation_bound, theory.harmonic_mean_similarity
    apart = [float(bounds[0](p, q) - bounds[1](p, q)) for p, q in random_pairs(60)]
    assert min(apart) < -0.01 < 0.01 < max(apart)


def test_poisson_matching_lemma():
    """The exact P(other winner under P | i wins under Q) is at most the bound, and nearly equal for a rare
    pair."""
    for p, q in [EXTREME, *random_pairs(50, seed=6)]:
        p, q = (np.array(p) + 1e-6) / (1 + 1e-6 * len(p)), (np.array(q) + 1e-6) / (1 + 1e-6 * len(q))
        both = np.array([1 / np.maximum(p / p[i], q / q[i]).sum() for i in range(len(p))])
        assert (1 - both / q <= theory.poisson_matching_bound(p, q).numpy() + 1e-12).all()
    mean = sum(q * theory.poisson_matching_bound(p, q).numpy())
    assert mean == pytest.approx(1 - float(theory.harmonic_mean_similarity(p, q)), abs=1e-12)
    assert theory.poisson_matching_bound([0.0, 1.0], [0.5, 0.5]).tolist() == [1.0, 1 / 3]


# Acceptance by index

ESTIMATES = theory.estimate_gsd_acceptance_by_index, theory.estimate_ersd_acceptance_by_index
FIRST = [*zip(BY_INDEX, (theory.gsd_acceptance, theory.ersd_acceptance), strict=True)]


@pytest.mark.parametrize(("function", "joint"), [*zip(BY_INDEX, (gsd_joint, ersd_joint), strict=True)])
def test_acceptance_by_index_equals_algorithm_4_and_the_sum_over_orders_of_arrival(function, joint):
    """In rationals, on random pairs and on extreme ratios."""
    extreme = ([1e-9, 0.5, 0.5 - 1e-9], [0.5, 1e-10, 0.5 - 1e-10])
    for p, q in [EXTREME, extreme, *random_pairs(40, 5, seed=1)]:
        n = len(p)
        assert function(p, q, n).tolist() == pytest.approx(by_index(joint(p, q), n), abs=1e-12)


def test_by_index_of_pairs_that_are_equal_up_to_rounding():
    rng = np.random.default_rng(10)
    for _ in range(60):
        p = rng.dirichlet(np.full(4, 0.3))
        q = p * (1 + rng.normal(0, 1e-16, 4))
        for function in BY_INDEX:
            assert function(p, q, 4).tolist() == pytest.approx([1, 0, 0, 0], abs=1e-12)


def test_ersd_by_index_equals_adaptive_integration():
    rng = np.random.default_rng(8)
    p, q = rng.dirichlet(np.full(24, 0.3)), rng.dirichlet(np.full(24, 0.3))
    p, q = (p + 1e-4) / (1 + 24e-4), (q + 1e-4) / (1 + 24e-4)

    def density(t, i, rank):
        distribution = np.ones(1)
        for rate in np.maximum(q * p[i] / q[i] - p, 0):
            distribution = np.convolve(distribution, [math.exp(-rate * t), -math.expm1(-rate * t)])
        return p[i] * math.exp(-t) * distribution[rank]

    distribution = theory.ersd_acceptance_by_index(p, q, 4)
    for rank in (1, 3):

        def by_log(y, rank=rank):
            return math.exp(y) * sum(density(math.exp(y), i, rank) for i in range(24))

        integral, _ = integrate.quad(by_log, -25, 3.7, limit=400)
        assert float(distribution[rank]) == pytest.approx(integral, abs=1e-7)


@pytest.mark.parametrize(("function", "first"), FIRST)
def test_acceptance_by_index_is_a_distribution_over_the_drafts_support(function, first):
    for p, q in random_pairs(40, 8, seed=3):
        distribution = function(p, q, len(p) + 2)
        covered = p[q > 0].sum()
        assert float(distribution.min()) >= 0
        assert float(distribution[0]) == pytest.approx(float(first(p, q)), abs=1e-12)
        assert not distribution[(q > 0).sum() :].any()
        # a rejected token has no residual probability left, so p is reached by accepted children alone
        assert float(distribution.sum()) == pytest.approx(covered, abs=1e-11)


def test_estimates_beyond_the_limits_agree_with_the_exact_values(monkeypatch):
    """Both simulations on pairs that are small enough to be exact, within 5.5 standard errors. The wrong
    method fails."""
    pairs = list(random_pairs(6, 8, seed=4))
    exact = [[function(p, q, 5) for p, q in pairs] for function in ESTIMATES]
    assert not any(estimate.standard_error.any() for estimates in exact for estimate in estimates)
    monkeypatch.setattr(gsd_by_index, "MAX_PREFIXES", 0)
    monkeypatch.setattr(ersd_by_index, "MAX_VOCABULARY", 0)

    def deviations(function, values):
        for (p, q), value in zip(pairs, values, strict=True):
            estimate = function(p, q, 5, samples=20_000, seed=3)
            assert (estimate.standard_error < 0.01).all()
            difference = (estimate.value - value.value).abs() - 1e-12
            yield float((difference / (estimate.standard_error + 1e-15)).max())

    for function, values, others in zip(ESTIMATES, exact, exact[::-1], strict=True):
        assert max(deviations(function, values)) < SIGMAS
        assert max(deviations(function, others)) > SIGMAS


# Expected tokens and their upper bounds


def test_expected_tokens_is_one_plus_the_sum_over_paths():
    rates = [0.6, 0.2, 0.1]
    tree = Topology([(0,), (1,), (0, 0), (0, 1), (1, 0), (3,), (2,)])
    by_path = 1 + sum(math.prod([*rates, 0.0][i] for i in path) for path in tree.paths)
    for acceptance in (rates, lambda path: math.prod([*rates, 0.0][i] for i in path)):
        assert theory.expected_tokens(acceptance, tree) == pytest.approx(by_path, abs=1e-15)
    assert theory.expected_tokens([0.5], sequence(3)) == 1.875
    assert theory.expected_tokens([0.0, 1.0], sequence(2)) == 1  # the first child is never right
    assert theory.expected_tokens([0.5, 0.25], batch(5)) == 1.75


def random_rates(count, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        rates = np.sort(rng.dirichlet([rng.choice([0.1, 0.5, 2.0])] * int(rng.integers(2, 12))))[::-1]
        yield rates * rng.choice([1.0, 0.95]), int(rng.integers(1, 64))


def test_tunstall_theorem_and_lemma_bound_the_optimal_tree():
    for rates, k in random_rates(60):
        expected = theory.expected_tokens(rates, optimal_topology(rates, k))
        leaf_bound = theory.tunstall_leaf_bound(rates, len(rates) + 1, k)
        assert expected <= leaf_bound + 1e-9
        assert leaf_bound <= theory.tunstall_bound(rates, len(rates) + 1, k) + 1e-12
        assert expected <= theory.lemma_bound(rates, k) + 1e-9


def test_tunstall_bound_by_hand():
    assert theory.tunstall_bound([0.5, 0.5], 2, 3) == pytest.approx(3.0)
    assert theory.tunstall_bound([0.5, 0.5, 0.0], 2, 3) == pytest.approx(3.0)
    assert theory.tunstall_leaf_bound([0.5, 0.5], 2, 1) == pytest.approx(math.log2(3))
    # the missing quarter counts as one more outcome, so H = 1.5
    assert theory.tunstall_bound([0.5, 0.25], 4, 1) == pytest.approx(2.0)
    assert theory.tunstall_bound([1.0], 4, 1) == math.inf


def test_lemma_is_smallest_over_m():
    for rates, k in random_rates(10, seed=1):
        least = theory.smallest_lemma_m(rates, k)
        residual = 1 - rates[: 1 + max(optimal_topology(rates, k).child_indices)].sum()
        assert least >= max(1, residual / rates[0])
        scan = [*range(least, least + 200), *(least * 2**i for i in range(200))]
        values = [theory.lemma_bound(rates, k, m) for m in scan]
        assert theory.lemma_bound(rates, k) <= min(values) + 1e-12
        best = theory.best_lemma_m(rates, k, most=max(scan))
        assert theory.lemma_bound(rates, k, best) <= min(values) * (1 + 1e-12)
        with pytest.raises(ValueError, match=f"m = {least - 1} is not an integer from {least} up"):
            theory.lemma_bound(rates, k, least - 1)


def test_lemma_finds_a_minimum_between_the_ends():
    """It is below the bounds of the smallest m and of the limit, 1 / p_res."""
    values = [theory.lemma_bound([0.6, 0.1, 0.05], 4, m) for m in range(1, 500)]
    assert theory.lemma_bound([0.6, 0.1, 0.05], 4) == pytest.approx(min(values), rel=1e-12)
    assert min(values) < values[0]


def test_lemma_by_hand():
    """One drafted token, so d = 1 child index; the other 40% are the residual."""
    bits = float(theory.entropy([0.6, 0.4]))
    assert theory.lemma_bound([0.6, 0.1], 1, 1) == pytest.approx(2 / bits)
    assert theory.lemma_bound([0.6, 0.1], 1, 2) == pytest.approx((math.log2(3) + 1) / (bits + 0.4))


def test_entropy_bounds_of_numbers_and_tensors():
    assert theory.pfr_entropy_bound(0.0) == 4.0
    assert theory.pfr_entropy_bound(3.0) == 9.0
    assert theory.pfr_entropy_bound(torch.tensor([0.0, 3.0])).tolist() == [4.0, 9.0]
    assert theory.greedy_rejection_entropy_bound(0.0) == pytest.approx(2.8946, abs=1e-4)
    for bound in (theory.pfr_entropy_bound, theory.greedy_rejection_entropy_bound):
        assert bound(np.float64(1)) == bound(1) == bound(torch.tensor([1]))


# Arguments that are not acceptances, and ratios that a float can't hold


@pytest.mark.parametrize("exponent", [1, 240, 249, 300, 323])
def test_acceptance_by_index_of_a_draft_that_is_hardly_ever_right_is_a_distribution(exponent):
    p, q = [0.5, 0.5], [10.0**-exponent, 1 - 10.0**-exponent]
    for by_index, first in FIRST:
        distribution = by_index(p, q, 2)
        assert float(distribution[0]) == pytest.approx(float(first(p, q)), abs=1e-9)
        assert float(distribution.sum()) == pytest.approx(1, abs=1e-7)


@pytest.mark.parametrize("least", [1e-300, 1e-200, 1e-30])
def test_the_best_m_of_a_tiny_acceptance_is_at_least_its_smallest(least):
    assert theory.best_lemma_m([least], 1) >= theory.smallest_lemma_m([least], 1) > 0.9 / least
    assert theory.lemma_bound([least], 1) == pytest.approx(1, abs=1e-2)


BOUNDS = [partial(bound, vocab_size=4, k=2) for bound in (theory.tunstall_bound, theory.tunstall_leaf_bound)]
LEMMAS = [partial(bound, k=2) for bound in (theory.lemma_bound, theory.smallest_lemma_m, theory.best_lemma_m)]
OF_RATES = [partial(theory.expected_tokens, topology=sequence(2)), *BOUNDS, *LEMMAS]
ENTROPY_BOUNDS = [theory.pfr_entropy_bound, theory.greedy_rejection_entropy_bound]
HALF = [0.5, 0.5]
NO_ACCEPTANCES = [[math.nan], [-0.1], [0.6, 0.5], None, 3, ["a"], [0.5j]]
REFUSED = [
    (partial(theory.expected_tokens, lambda path: 1.5, sequence(2)), "^acceptance_by_index"),
    (partial(theory.expected_tokens, [0.5], 3), "topology = 3"),
    *((partial(use, wrong), "^acceptance") for use in OF_RATES for wrong in NO_ACCEPTANCES),
    *((partial(bound, [0.5], k=0), "k = 0") for bound in BOUNDS),
    *((partial(bound, [0.5], vocab_size=2.5), r"vocab_size = 2\.5") for bound in BOUNDS),
    # a vocabulary has at least as many tokens as there are alternatives
    *((partial(bound, [0.1] * 5), "vocab_size = 4, but acceptance_by_index has 5") for bound in BOUNDS),
    # ratios that a float can't hold
    *((partial(lemma, [least]), f".* {least}") for lemma in LEMMAS for least in (5e-324, 1e-310, 1e-301)),
    *((partial(theory.lemma_bound, [0.5], 5, m), "^m = 1") for m in (10**400, 2**1024, 10**301)),
    *((partial(theory.best_lemma_m, [0.5], 4, most), "most = ") for most in (math.inf, math.nan, 0, None)),
    *((partial(bound, kl), "^kl = ") for bound in ENTROPY_BOUNDS for kl in (-1.0, "1", [1.0, 2.0], math.nan)),
    *((partial(estimate, HALF, HALF, 1.5), "^k = ") for estimate in ESTIMATES),
    *((partial(estimate, HALF, HALF, 2, samples=1), "^samples = ") for estimate in ESTIMATES),
    *((partial(estimate, HALF, HALF, 2, seed=-1), "^seed = ") for estimate in ESTIMATES),
]


@pytest.mark.parametrize(("use", "message"), REFUSED)
def test_mistakes_are_named(use, message):
    with pytest.raises(ValueError, match=message):
        use()
