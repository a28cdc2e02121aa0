"""Drafts from one race or from many: exact acceptance, its bounds, and that one race never accepts less."""

import math

import numpy as np
import pytest

from research.theory import lists
from specdec import theory
from tests.theory.test_theory import SIGMAS, random_pairs

RACES = 100_000


def list_sampling(p, q, n, rng, shared=True):
    """How often the token that wins under P is among the winners of n races under Q."""
    e = rng.exponential(size=(RACES, n, len(p)))
    with np.errstate(divide="ignore"):
        tokens = (e.min(1) / p).argmin(-1)
        drafts = ((e if shared else rng.exponential(size=e.shape)) / q).argmin(-1)
    return (drafts == tokens[:, None]).any(1).mean()


@pytest.mark.parametrize("n", [2, 3, 5])
def test_list_sampling_accepts_as_often_as_computed(n):
    """A false alarm has a probability of 4e-8 for each pair. Other exponentials are the negative control."""
    rng, controls = np.random.default_rng(n), 0
    for p, q in random_pairs(12, 6, seed=n):
        exact = float(lists.list_sampling_acceptance(p, q, n))
        error = SIGMAS * math.sqrt(max(exact * (1 - exact), 1 / RACES) / RACES)
        assert abs(list_sampling(p, q, n, rng) - exact) < error
        controls += abs(list_sampling(p, q, n, rng, shared=False) - exact) > error
    assert controls >= 3


def test_special_cases_have_closed_forms():
    """One race gives ERSD. A certain target is found as often as by independent draws. A perfect draft is
    always accepted."""
    sure = [0.0, 1.0, 0.0]
    for p, q in random_pairs(20, 6, seed=5):
        one = float(lists.list_sampling_acceptance(p, q, 1))
        assert one == pytest.approx(float(theory.ersd_acceptance(p, q)), abs=1e-9)
        assert float(lists.list_sampling_acceptance(q, q, 3)) == pytest.approx(1, abs=1e-9)
    for n in (2, 4):
        rate = float(lists.list_sampling_acceptance(sure, [0.5, 0.2, 0.3], n))
        assert rate == pytest.approx(1 - 0.8**n, abs=1e-9)


@pytest.mark.parametrize("n", [2, 3, 4, 8])
def test_one_race_read_deep_is_never_behind_many_races(n):
    """The order of docs/theory.md on random pairs. The optimum of each kind of drafts is above it."""
    for p, q in random_pairs(150, 14, seed=n):
        races = float(lists.list_sampling_acceptance(p, q, n))
        arrivals = float(theory.ersd_acceptance_by_index(p, q, n).sum())
        middle = float(lists.arrivals_bound(p, q, n))
        assert float(lists.list_matching_bound(p, q, n)) <= races + 1e-9
        assert races <= middle + 1e-9
        assert middle <= arrivals + 1e-8
        assert races <= float(theory.optimal_acceptance(p, q, n, replacement=True)) + 1e-8
        assert arrivals <= float(theory.optimal_acceptance(p, q, n)) + 1e-8
