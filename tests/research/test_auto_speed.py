"""The comparison of "auto" with fixed trees and with other prices of a further level."""

import pytest

from research import auto_speed
from specdec.decoding import auto
from specdec.decoding.costs import RoundCost, RoundTimes
from tests.core.test_auto import NOTHING, joint
from tests.helpers.distributions import markov_pair

SETTINGS = {"method": "ersd", "temperature": 1.0, "seed": 1, "draft_temperature": None, "max_new_tokens": 120}


def test_plain_decoding_whole_trees_and_each_price_are_compared(monkeypatch):
    priced = []

    def price(*arguments):
        priced.append(own(*arguments))
        return priced[-1]

    own = auto.price_of_level
    monkeypatch.setattr(auto, "price_of_level", price)
    monkeypatch.setattr(auto, "_SHARE", 1e9)  # trees are chosen in each round, however fast the machine is
    cost = RoundCost(joint(lambda rows: 1 + 0.01 * rows), joint(lambda _: 0.01), NOTHING)
    monkeypatch.setattr(RoundTimes, "costs", lambda *_: cost)
    pair = markov_pair(4, seed=3)
    ways = auto_speed.ways_of("prices", pair, SETTINGS)
    comparison = auto_speed.compared(pair, [[0], [1]], SETTINGS, ways, 1)
    prices = (f"price x {factor}" for factor in auto_speed.FACTORS)
    assert list(comparison) == ["plain decoding", "without stopping", *prices]
    assert comparison["plain decoding"]["times plain decoding"] == pytest.approx(1)
    assert comparison["plain decoding"]["tokens per call"] == 1
    assert all(len(row["rates"]) == 2 and row["times plain decoding"] > 0 for row in comparison.values())
    assert priced


def test_auto_is_compared_with_fixed_trees_on_the_same_texts():
    pair = markov_pair(4, seed=3)
    rows = auto_speed.compared(pair, [[0]], SETTINGS, auto_speed.ways_of("trees", pair, SETTINGS), 2)
    names = [*rows]
    assert (names[0], names[-1]) == ("plain decoding", "auto")
    assert all(len(row["rates"]) == 2 for row in rows.values())
    assert rows["sequence(6)"]["tokens per call"] > rows["sequence(1)"]["tokens per call"] > 1
    assert rows["sequence(1)"]["after 64 tokens"] > 0
    rows = auto_speed.compared(pair, [[0]], SETTINGS, auto_speed.ways_of("copies", pair, SETTINGS), 1)
    assert [*rows] == ["plain decoding", "auto", "auto with copies", "copies alone"]
