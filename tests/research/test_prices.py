"""The comparison of prices at which a draft model stops."""

import pytest

from research import stopping
from specdec.decoding import auto
from specdec.decoding.costs import RoundCost, RoundTimes
from tests.core.test_auto import NOTHING, joint
from tests.helpers.distributions import markov_pair


def test_plain_decoding_whole_trees_and_each_price_are_compared(monkeypatch):
    asked = []

    def price(*arguments):
        asked.append(own(*arguments))
        return asked[-1]

    own = auto.price_of_level
    monkeypatch.setattr(auto, "price_of_level", price)
    monkeypatch.setattr(auto, "_SHARE", 1e9)  # trees are chosen in each round, however fast the machine is
    cost = RoundCost(joint(lambda rows: 1 + 0.01 * rows), joint(lambda _: 0.01), NOTHING)
    monkeypatch.setattr(RoundTimes, "costs", lambda *_: cost)
    settings = {"method": "ersd", "temperature": 1.0, "seed": 1, "max_new_tokens": 60}
    found = stopping.rates(markov_pair(4, seed=3), [[0], [1]], settings)
    assert list(found) == ["plain decoding", "without stopping", *(f"price x {f}" for f in stopping.FACTORS)]
    assert found["plain decoding"]["times plain decoding"] == pytest.approx(1)
    assert found["plain decoding"]["tokens per call"] == 1
    assert all(len(row["rates"]) == 2 and row["times plain decoding"] > 0 for row in found.values())
    assert asked
