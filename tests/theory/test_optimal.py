"""Optimal trees: equal to brute force and to the dynamic program, and built in O(k log k)."""

import itertools
import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdec import algorithms, optimal
from specdec.optimal import chosen_algorithm, dynamic_program_topology, optimal_topology
from specdec.theory import expected_tokens
from specdec.topology import Topology, sequence

UNEVEN = [0.5, 0.02, 0.4]
MEASURED = [0.68, 0.12, 0.05, 0.03, 0.02, 0.015, 0.01, 0.008]
DEEP = [0.9, 0.05, 0.02, 0.01, 0.005, 0.003]


def all_trees(k, most_children):
    trees = {frozenset()}
    for _ in range(k):
        trees = {tree | {path} for tree in trees for path in next_paths(tree, most_children)}
    return trees


def next_paths(tree, most_children):
    for node in [(), *tree]:
        count = sum(path[:-1] == node for path in tree)
        if count < most_children:
            yield (*node, count)


def best_value(acceptance, k, most_children):
    """1 + the largest sum over all trees; acceptance is a callable path -> probability."""
    return 1 + max(math.fsum(map(acceptance, tree)) for tree in all_trees(k, most_children))


def product_of(rates):
    return lambda path: math.prod(rates[i] for i in path)


@st.composite
def acceptances(draw, falling=True):
    weights = draw(st.lists(st.floats(0.001, 1).map(lambda x: x**2), min_size=1, max_size=8))
    rates = np.array(weights) / sum(weights) * draw(st.sampled_from([1.0, 0.97, 0.5]))
    return np.sort(rates)[::-1] if falling else rates


@settings(derandomize=True, deadline=None, max_examples=100)
@given(acceptances(), st.integers(1, 120))
def test_algorithm_3_equals_sequoias_dynamic_program(rates, k):
    assert chosen_algorithm(rates, k) == "greedy"
    value = expected_tokens(rates, optimal_topology(rates, k))
    assert value == pytest.approx(expected_tokens(rates, dynamic_program_topology(rates, k)), abs=1e-12)


@settings(derandomize=True, deadline=None, max_examples=40)
@given(st.booleans().flatmap(acceptances), st.integers(1, 5))
def test_falling_and_uneven_vectors_are_solved_as_by_brute_force(rates, k):
    topology = optimal_topology(rates, k)
    assert topology.num_draft_tokens == k
    assert expected_tokens(rates, topology) == pytest.approx(best_value(product_of(rates), k, len(rates)))


def test_the_algorithm_is_chosen_by_the_vector_and_its_size():
    assert chosen_algorithm([0.5, 0.4, 0.02], 10**6) == "greedy"
    assert chosen_algorithm(UNEVEN, 4) == "dynamic program"
    assert chosen_algorithm(UNEVEN, 10**6) == "pooled"
    assert expected_tokens(UNEVEN, optimal_topology(UNEVEN, 4)) == pytest.approx(2.17)
    # negative control: the greedy choice alone does not find the best tree of this vector
    greedy = optimal._greedy_by_path(product_of([*UNEVEN, *[0.0] * 5]), 4)
    assert expected_tokens(UNEVEN, greedy) == pytest.approx(1.9375)


def test_pooling_is_close_on_measured_vectors_and_never_better_than_exact():
    """Decreasing vectors with 10% noise: within 1% at 100 nodes."""
    rng = np.random.default_rng(0)
    for _ in range(40):
        rates = np.sort(rng.dirichlet(np.full(8, 0.5)))[::-1] * np.exp(rng.normal(0, 0.1, 8)) + 1e-6
        rates /= rates.sum()
        exact = expected_tokens(rates, dynamic_program_topology(rates, 100))
        pooled = optimal.pooled(rates)
        assert (np.diff(pooled) <= 0).all()
        assert pooled.sum() == pytest.approx(1)
        tree = optimal._in_level_order(*optimal.pop_order(pooled, 100))
        assert 0.99 * exact <= expected_tokens(rates, tree) <= exact + 1e-12


@pytest.mark.parametrize("seed", range(4))
def test_trees_of_a_chain_are_those_of_algorithm_3_and_as_good_as_by_brute_force(seed):
    """R by path, where a node's acceptance depends on its parent's child index."""
    rng = np.random.default_rng(seed)
    step = -np.sort(-rng.dirichlet(np.full(4, 0.7), size=5), axis=1)  # [index of the parent, or 4; index]

    def accepted(path):
        return math.prod(step[a, b] if b < 4 else 0.0 for a, b in itertools.pairwise((4, *path)))

    for k in (*range(1, 6), 25):
        topology = optimal_topology(accepted, k)
        assert {(), *topology.paths} == algorithms.optimal_tree(k, accepted, 4)
        if k < 6:
            assert expected_tokens(accepted, topology) == pytest.approx(best_value(accepted, k, 4))


def test_ties_and_certain_acceptance():
    assert optimal_topology([1.0], 5) == sequence(5)
    assert optimal_topology([1.0, 0.0], 5) == sequence(5)
    equal = [0.25] * 4
    for k in range(1, 40):
        level_order, best = optimal_topology(equal, k), dynamic_program_topology(equal, k)
        assert expected_tokens(equal, level_order) == pytest.approx(expected_tokens(equal, best))
    assert optimal_topology([0.5, 0.5], 2) == Topology([(0,), (1,)])


@pytest.mark.parametrize(
    ("acceptance", "k", "message"),
    [
        ([0.7, 0.4], 4, r"acceptance = \[0\.7, 0\.4\] must be in \[0, 1\] and sum to at most 1"),
        ([0.7, -0.1], 4, "must be in"),
        ([math.nan], 4, "must be in"),
        ([0.0, 0.0], 4, r"acceptance = \[0\.0, 0\.0\]: no child is ever accepted"),
        ([[0.5]], 4, r"acceptance has shape \(1, 1\)"),
        ([0.5], 0, "k = 0 is not an integer"),
        (lambda path: 2.0, 3, r"acceptance\(0,\) = 2\.0 is not a probability"),
        (lambda path: None, 3, r"acceptance\(0,\) = None is not a probability"),
    ],
)
def test_errors_name_the_value(acceptance, k, message):
    with pytest.raises(ValueError, match=message):
        optimal_topology(acceptance, k)


@pytest.mark.parametrize(
    "use", [chosen_algorithm, dynamic_program_topology, optimal.pop_order, optimal.most_expected_tokens]
)
def test_every_function_names_what_is_no_acceptance(use):
    with pytest.raises(ValueError, match=r"^acceptance"):
        use([0.5j], 3)


def cpu_seconds(k, rates, repeats=3):
    """CPU time, the smallest of several measurements: other processes hardly change it."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        optimal_topology(rates, k)
        times.append(time.process_time() - start)
    return min(times)


def test_deep_trees_do_not_cost_their_depth():
    """The time from 1,000 to 30,000 nodes grows much less than quadratically, also if the tree is nearly one
    path."""
    for rates in (MEASURED, DEEP, [0.9999, 0.0001]):
        growth = math.log(cpu_seconds(30_000, rates) / cpu_seconds(1000, rates, 9)) / math.log(30)
        assert growth < 1.5
    assert optimal_topology([0.9999, 0.0001], 20_000).depth > 10_000


def test_the_dynamic_program_reaches_the_papers_largest_tree():
    rates = np.sort(np.random.default_rng(2).dirichlet(np.full(384, 0.1)))[::-1] + 1e-9
    rates /= rates.sum()
    exact = expected_tokens(rates, dynamic_program_topology(rates, 384))
    assert expected_tokens(rates, optimal_topology(rates, 384)) == pytest.approx(exact, abs=1e-12)
