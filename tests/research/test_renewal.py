"""Limits of tokens per call by surprises: no tree exceeds them, and they agree with known results."""

import itertools
import math

import numpy as np
import pytest

from research.experiments.texts import rounds_on
from research.theory import renewal
from specdec import theory
from specdec.optimal import most_expected_tokens
from specdec.topology import Topology, sequence

KS = (1, 2, 4, 16, 64, 384)


def distributions(count, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield np.sort(rng.dirichlet(np.full(int(rng.integers(2, 40)), rng.choice([0.1, 0.5, 2.0]))))[::-1] + 0


def best_tree(p, k):
    """Tokens per call of the k most probable nodes, which are the best drafts without the target's noise."""
    return float(most_expected_tokens(p[p > 1e-300], k)[k])


def test_no_deterministic_tree_passes_the_limit_and_the_stated_one_is_above_it():
    """The stated constant 0 is enough from k = 3 on. Without Lorden's term the limit would be wrong."""
    broken = 0
    for p, k in itertools.product(distributions(60), KS):
        moments = float(theory.entropy(p)), float(renewal.second_log_moment(p))
        limit, tokens = renewal.deterministic_limit(*moments, k), best_tree(p, k)
        assert tokens <= limit + 1e-9
        if k >= 3:
            assert limit <= renewal.stated_limit(*moments, k) + 1e-9
        broken += tokens > renewal.deterministic_limit(moments[0], moments[0] ** 2, k) + 1e-9
    assert broken > 0


def test_uniform_tokens_have_a_limit_without_variance():
    """Four equal tokens: k = 4 + 16 is a complete tree of depth 2, with three tokens per call."""
    assert best_tree(np.full(4, 0.25), 20) == pytest.approx(3)
    assert 3 < renewal.deterministic_limit(2, 4, 20) < 4.2


def test_no_tree_passes_the_renewal_bound():
    for rates, k in itertools.product(distributions(40, seed=1), KS):
        for missing in (0.0, 0.05, 0.4):
            r = rates[rates > 1e-12] * (1 - missing)
            assert best_tree(r, k) <= renewal.renewal_bound(r, k) + 1e-9
    assert renewal.renewal_bound([0.5], 1000) == pytest.approx(2)


def test_a_sure_text_has_no_limit():
    assert renewal.deterministic_limit(0, 0, 4) == renewal.stated_limit(0, 0, 4) == math.inf


def test_rounds_on_a_tree_follow_the_ranks():
    tree = Topology([(0,), (1,), (0, 0)])
    ends = list(rounds_on(tree, [0, 0, 5, 1, 0, 7, 0]))
    assert ends == [((0, 0), 5), ((1,), 0), ((), 7), ((0,), None)]
    assert list(rounds_on(sequence(2), [0, 0])) == [((0, 0), None)]
