"""The verdict whether drafting pays: against gains that are computed by hand."""

import json

import numpy as np
import pytest

from specdec import loading, payoff
from specdec.decoding import auto, costs
from tests.helpers.distributions import markov_pair

NOTHING = costs.Overhead(0.0, 0.0, 0.0, 0.0)


def verdict(acceptance, draft, row, rest=0.0):
    """The target's first row takes 1 s and each further one `row`; a draft forward takes `draft`."""
    target = costs.JointCost({1: costs.ForwardCost({1: [1.0], 101: [1.0 + 100 * row]})})
    drafting = costs.JointCost({1: costs.ForwardCost({1: [draft]})})
    overhead = costs.Overhead(rest, 0.0, 0.0, 0.0)
    cost = costs.RoundCost(target, drafting, overhead)
    return payoff.Payoff.of(auto.chosen(np.array(acceptance), cost))


def test_the_gain_is_that_of_the_best_tree():
    found = verdict([0.5], draft=0.1, row=0.0)
    gains = [sum(0.5**i for i in range(k + 1)) / (1 + 0.1 * k) for k in range(10)]
    assert found.speed_up == pytest.approx(max(gains))
    assert found.drafted == gains.index(max(gains))
    assert found.without["the target's time for further rows"] == pytest.approx(found.speed_up)
    assert found.without["drafts that are rejected"] == pytest.approx(33 / (1 + 0.1 * 32))


@pytest.mark.parametrize(
    ("given", "limit"),
    [
        (([0.9], 0.5, 0.0), "the draft's time"),
        (([0.9], 1e-3, 0.5), "the target's time for further rows"),
        (([0.1], 1e-3, 1e-3), "drafts that are rejected"),
    ],
)
def test_what_limits_most_is_named(given, limit):
    found = verdict(*given)
    assert max(found.without, key=found.without.get) == limit
    assert f"What limits it most: {limit}." in found.sentences()


def test_a_pair_that_gains_nothing_is_told_so():
    found = verdict([0.1], draft=2.0, row=1.0)
    assert (found.speed_up, found.drafted) == (1.0, 0)
    assert "does not pay" in found.sentences()[0]


def test_the_command_measures_a_pair(monkeypatch, capsys):
    monkeypatch.setattr(loading, "load_with_progress", lambda *_, **__: markov_pair(6))
    payoff.main([])
    assert len(capsys.readouterr().out.splitlines()) == 3
    payoff.main(["--json", "--texts", "2"])
    assert json.loads(capsys.readouterr().out)["speed_up"] >= 1
    with pytest.raises(ValueError, match="drafts nothing"):
        payoff.main(["--method", "ar"])
