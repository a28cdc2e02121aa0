"""Prepared continuations: the probability that the token after a rejection is among them, by enumeration."""

import itertools
import math

import numpy as np
import pytest

from research.theory import preparation
from specdec import theory
from specdec.topology import Topology, batch, sequence
from tests.theory.test_theory import SIGMAS, random_pairs

RACES = 200_000


def test_gsd_s_chance_is_that_of_all_rejected_and_next_tokens():
    for p, q in random_pairs(40, 6, seed=2):
        excess, lost = np.maximum(p - q, 0), np.maximum(q - p, 0)
        if excess.sum() < 1e-9:
            continue
        for m in range(1, len(p) + 1):
            hit = 0.0
            for rejected, token in itertools.product(range(len(p)), repeat=2):
                expected = [x for x in np.argsort(-q, kind="stable") if x != rejected][:m]
                hit += lost[rejected] * excess[token] / lost.sum() / excess.sum() * (token in expected)
            assert float(preparation.gsd_preparation_hit(p, q, m)) == pytest.approx(hit, abs=1e-9)
    assert preparation.gsd_preparation_hit([0.5, 0.5], [0.5, 0.5], 1).isnan()


@pytest.mark.parametrize(("drafted", "m"), [(1, 1), (1, 3), (2, 2)])
def test_ersd_s_chance_is_that_of_simulated_races(drafted, m):
    """A false alarm has a probability of 4e-8. GSD's probability is the negative control."""
    rng = np.random.default_rng(drafted)
    p, q = (rng.dirichlet(np.full(12, 0.8)) for _ in "pq")
    rates = theory.ersd_acceptance_by_index(p, q, 12).tolist()
    e = rng.exponential(size=(RACES, 12))
    winners = (e / p).argmin(-1)[:, None]
    times = e / q
    index = (times < np.take_along_axis(times, winners, 1)).sum(-1)
    later = index[index >= drafted]
    exact, measured = preparation.ersd_preparation_hit(rates, drafted, m), (later < drafted + m).mean()
    error = SIGMAS * math.sqrt(exact * (1 - exact) / len(later))
    assert abs(measured - exact) < error
    assert abs(float(preparation.gsd_preparation_hit(p, q, m)) - exact) > error


def test_ends_of_a_round_are_the_most_probable_ones_and_all_of_them_are_certain():
    rates = [0.6, 0.3, 0.1]
    ends, chance = preparation.prepared_outcomes(rates, sequence(2), 2)
    assert ends == [((), 1), ((0, 0), 0)]
    assert chance == pytest.approx(0.36 * 0.6 + 0.3)
    for tree in (sequence(3), batch(2), Topology([])):
        ends, chance = preparation.prepared_outcomes(rates, tree, 100)
        assert chance == pytest.approx(1)
        assert len(set(ends)) == len(ends)


def test_what_is_never_rejected_has_no_chance():
    assert math.isnan(preparation.ersd_preparation_hit([1.0], 1, 1))
