"""Laws of the choice of a tree: by expected tokens per second, plain decoding included."""

from __future__ import annotations

import pickle

import pytest
from laws import random_table

import specdec
from specdec import auto
from specdec.models import MarkovModel

COUNTS = (1, 2, 3, 5, 9, 17, 33)


def pair_of_twins() -> specdec.ModelPair:
    table = random_table(6, 0, 3)
    return specdec.ModelPair(MarkovModel(table), MarkovModel(table))


def chosen(monkeypatch, draft_seconds: float, target_seconds) -> specdec.Topology:
    """What auto takes of a draft that is always right, at these costs and no others."""
    target = auto._ForwardCost({n: [target_seconds(n)] for n in COUNTS})
    draft = auto._ForwardCost({n: [draft_seconds] for n in COUNTS})
    monkeypatch.setattr(auto, "_forward_costs", lambda pair: [target, draft])
    generation = specdec.generate(
        pair_of_twins(), [0], method="ersd", topology="auto", max_new_tokens=2, seed=0
    )
    return specdec.Topology(generation.paths)


@pytest.mark.parametrize(
    ("draft_seconds", "target_seconds", "fits"),
    [
        (2e3, lambda n: 1e3, lambda tree: tree.num_draft_tokens == 0),
        (1e-9, lambda n: 1e3, lambda tree: tree.depth >= 12),
        (1e-9, lambda n: 1e3 * n**2, lambda tree: tree.num_draft_tokens <= 1),
    ],
    ids=["a draft dearer than the target: none", "all free: deep", "many at once are dear: none or one"],
)
def test_the_tree_follows_the_costs(monkeypatch, draft_seconds, target_seconds, fits):
    assert fits(chosen(monkeypatch, draft_seconds, target_seconds))


def test_a_busy_moment_does_not_make_a_forward_dear():
    cost = auto._ForwardCost({1: [1.0] * 6 + [50.0] * 2, 5: [2.0] * 6 + [1e3] * 2})
    assert (cost.seconds(1), cost.seconds(3), cost.seconds(5)) == (1.0, 1.5, 2.0)


def test_more_tokens_never_cost_less():
    cost = auto._ForwardCost({1: [1.0], 2: [3.0], 5: [2.0]})
    assert [cost.seconds(n) for n in (1, 2, 3, 5)] == [1.0, 3.0, 3.0, 3.0]


def test_a_server_that_is_asked_for_many_temperatures_forgets_the_oldest(monkeypatch):
    monkeypatch.setattr(auto, "_REMEMBERED", 3)
    pair = pair_of_twins()
    for temperature in (0.5, 0.6, 0.7, 0.8, 0.9):
        specdec.measure_acceptance(pair, [0], temperature=temperature)
    assert [sampling.temperature for _, sampling in pair.trials] == [0.7, 0.8, 0.9]
    assert len(pickle.dumps(pair.trials)) < 4096  # what was found, and not the rounds
