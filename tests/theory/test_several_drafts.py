"""The acceptance with several drafts: by the rules as they decide, and the most that any rule can reach."""

import itertools
import math
import time
from fractions import Fraction

import numpy as np
import pytest
import torch
from scipy.optimize import linprog

from specdec import theory
from specdec.theory import all_drafts_in
from specdec.theory.all_drafts_in import outside_of_arrivals, outside_of_draws
from specdec.theory.gsd_by_index import SortedPair
from specdec.topology import batch
from tests.core.test_algorithms import rational_table
from tests.rules.test_other_rules import distribution_of
from tests.theory.test_theory import SEVERAL, random_pairs


def random_laws(seed, size=None):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.full(size or int(rng.integers(2, 7)), 0.5), 2)


def sparse_laws(seed):
    p, q = random_laws(seed, 5)
    p[seed % 5] = q[(seed + 2) % 5] = 0
    return p / p.sum(), q / q.sum()


def distribution_of_drafts(q, n, replacement):
    """Probabilities of sets of drafted tokens; the whole support of q if it has fewer than n tokens."""
    support = [i for i in range(len(q)) if q[i] > 0]
    n = n if replacement else min(n, len(support))
    distribution = {}
    for tokens in itertools.product(support, repeat=n) if replacement else itertools.permutations(support, n):
        mass, remaining = 1.0, set(support)
        for token in tokens:
            mass *= q[token] / sum(q[i] for i in remaining)
            remaining -= set() if replacement else {token}
        distribution[frozenset(tokens)] = distribution.get(frozenset(tokens), 0) + mass
    return distribution


def linear_program(p, q, n, replacement):
    distribution = distribution_of_drafts(q, n, replacement)
    pairs = [(drafts, token) for drafts in distribution for token in drafts]
    rows = [[float(pair[0] == drafts) for pair in pairs] for drafts in distribution]
    rows += [[float(pair[1] == token) for pair in pairs] for token in range(len(p))]
    limits = [*distribution.values(), *p]
    return -linprog([-1.0] * len(pairs), A_ub=rows, b_ub=limits, bounds=(0, None), method="highs").fun


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_the_optimum_is_that_of_the_linear_program(n, replacement):
    for seed in range(6):
        for p, q in (random_laws(seed), sparse_laws(seed)):
            rate = float(theory.optimal_acceptance(p, q, n, replacement))
            assert rate == pytest.approx(linear_program(p, q, n, replacement), abs=1e-9)


@pytest.mark.parametrize(
    ("p", "q", "n"),
    [
        ([1, 1, 1, 1], [1, 1e-40, 1e-41, 1e-42], 3),  # late times, with powers that overflow
        ([1, 1, 1, 1, 1], [0.5, 0.5, 1e-60, 1e-80, 1e-100], 4),
        ([3, 1, 2, 2, 2], [2, 2, 2, 1, 2], 4),  # times at which nearly nothing is missing
    ],
)
def test_the_optimum_of_tiny_probabilities_is_that_of_all_subsets(p, q, n):
    p, q = (np.array(x, dtype=float) / sum(x) for x in (p, q))
    drafted = distribution_of_drafts(q, n, False)
    least = min(
        p[list(subset)].sum() + sum(mass for drafts, mass in drafted.items() if drafts - set(subset))
        for k in range(len(p) + 1)
        for subset in itertools.combinations(range(len(p)), k)
    )
    assert float(theory.optimal_acceptance(p, q, n)) == pytest.approx(least, abs=1e-9)


def grid_pair(kind, size, seed):
    rng = np.random.default_rng(seed)
    uniform, logits = np.full(size, 1 / size), 3 * rng.normal(size=size)
    p, q = rng.dirichlet(np.full(size, 0.5), 2)
    near = (np.exp(x) / np.exp(x).sum() for x in (logits, logits + rng.normal(size=size)))
    kinds = {"uniform q": (p, uniform), "uniform p": (uniform, q), "random": (p, q), "peaked": tuple(near)}
    return kinds[kind]


@pytest.mark.parametrize("size", [130, 1000])
@pytest.mark.parametrize("kind", ["uniform q", "uniform p", "random", "peaked"])
def test_the_optimum_of_many_tokens_is_the_least_of_all_prefixes(kind, size):
    for n, replacement in itertools.product((2, 3, 16), (True, False)):
        p, q = grid_pair(kind, size, n)
        pair = SortedPair(p, q)
        outside = (outside_of_draws if replacement else outside_of_arrivals)(pair.q, n)
        least = (pair.p_sum + outside(np.arange(size + 1))).min()
        assert float(theory.optimal_acceptance(p, q, n, replacement)) == pytest.approx(least, abs=1e-9)


@pytest.mark.parametrize(
    ("size", "n"), [(129, 3), (129, 40), (129, 127), (1000, 8), (1000, 900), (4096, 384)]
)
def test_arrivals_of_a_uniform_race_have_a_closed_form(size, n):
    m = np.unique(np.linspace(0, size, 60).astype(int))
    closed = [1 - Fraction(math.comb(each, n), math.comb(size, n)) for each in m.tolist()]
    masses = outside_of_arrivals(np.full(size, 1 / size), n)(m)
    assert masses == pytest.approx([float(each) for each in closed], abs=1e-11)


def test_a_bound_takes_the_smallest_number_that_a_float_holds():
    """Half of the draft is 0, whose logarithm is an error. This ended some decodes of 20,000 tokens."""
    assert all_drafts_in._log_tail(5e-324, 100, 3) < -70_000


@pytest.mark.parametrize("spread", [0.0, 1.0, 4.0, 12.0])
def test_tokens_that_enter_together_count_as_if_each_entered_alone(spread, monkeypatch):
    for n in (3, 8, 40):
        q = np.exp(spread * np.random.default_rng(n).normal(size=600))
        q, m = q / q.sum(), np.arange(0, 601, 7)
        together = outside_of_arrivals(q, n)(m)
        with monkeypatch.context() as patch:
            patch.setattr(all_drafts_in, "_SERIES_ERROR", 0.0)  # every token is computed one by one
            patch.setattr(all_drafts_in, "_LARGEST_STEP", 0.05)
            alone = outside_of_arrivals(q, n)(m)
        assert together == pytest.approx(alone, abs=1e-11)


def test_two_arrivals_in_closed_form_are_those_of_the_integral():
    for seed in range(20):
        q = np.sort(np.random.default_rng(seed).dirichlet(np.full(40, 0.02 if seed % 2 else 0.5)))
        q = q[q > 1e-12] / q[q > 1e-12].sum()
        m = np.arange(len(q) + 1)
        assert np.abs(outside_of_arrivals(q, 2)(m) - all_drafts_in._Arrivals(q, 2)(m)).max() < 1e-9


@pytest.mark.parametrize(
    ("tables", "n"), [(([1, 5, 4], [6, 3, 1]), 3), (([2, 0, 3], [1, 4, 0]), 2), (([3, 2, 1], [3, 2, 1]), 2)]
)
@pytest.mark.parametrize("rule", ["specinfer", "spectr"])
def test_acceptance_is_that_of_the_rule_by_enumeration(rule, n, tables, monkeypatch):
    P, Q = (rational_table([row] * 3) for row in tables)
    distribution = distribution_of(rule, (P, Q), batch(n), monkeypatch)
    accepted = sum(mass for text, mass in distribution.items() if len(text) == 2)
    p, q = ([float(Fraction(x)) for x in table[0]] for table in (P, Q))
    rate = getattr(theory, f"{rule}_acceptance")(p, q, n)
    assert float(rate) == pytest.approx(float(accepted), abs=1e-9)


def test_no_rule_passes_the_optimum_and_one_draft_is_all_the_same():
    for p, q in random_pairs(24, 8):
        one = float(theory.gsd_acceptance(p, q))
        for accepted in SEVERAL:
            assert float(accepted(p, q, 1)) == pytest.approx(one, abs=1e-12)
        for n in (2, 3, 4):
            independent = float(theory.optimal_acceptance(p, q, n, replacement=True))
            without = float(theory.optimal_acceptance(p, q, n))
            assert float(theory.specinfer_acceptance(p, q, n)) <= independent + 1e-12
            assert float(theory.spectr_acceptance(p, q, n)) <= independent + 1e-12
            for by_index in (theory.gsd_acceptance_by_index, theory.ersd_acceptance_by_index):
                assert float(by_index(p, q, n).sum()) <= without + 1e-9
            assert independent <= without + 1e-12


def test_laws_that_are_one_token_or_have_none_in_common():
    same, other = [1.0, 0.0, 0.0], [0.0, 0.5, 0.5]
    for accepted in SEVERAL:
        for n in (1, 2, 5):
            assert float(accepted(same, same, n)) == 1
            assert float(accepted(same, other, n)) == 0
            assert float(accepted(other, other, n)) == pytest.approx(1)


@pytest.mark.parametrize("accepted", SEVERAL)
def test_a_number_of_drafts_that_is_none_is_named(accepted):
    for n in (0, -1, 1.5, True):
        with pytest.raises(ValueError, match="n = "):
            accepted([0.5, 0.5], [0.5, 0.5], n)


@pytest.mark.parametrize("n", [2, 8])
def test_a_vocabulary_of_128k_tokens_costs_as_some_sorts(n):
    """Processor time relative to sorting the vocabulary, the smallest of three."""
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(131_072, generator=generator).double()
    p, q = logits.softmax(-1), (logits + torch.randn(131_072, generator=generator)).softmax(-1)

    def seconds(function, *arguments):
        times = []
        for _ in range(3):
            start = time.process_time()
            function(*arguments)
            times.append(time.process_time() - start)
        return min(times)

    sort = seconds(np.argsort, p.numpy())
    for accepted in SEVERAL:
        assert seconds(accepted, p, q, n) < 60 * sort
