"""The verdict whether drafting pays, compared with gains that are computed by hand and with decoding."""

import json
from dataclasses import replace

import numpy as np
import pytest

from research import payoff as check
from research.payoff import gain_of
from specdec.decoding import costs
from specdec.payoff import Payoff, SetUp, changed, command, roofline
from specdec.payoff.gain import gain
from specdec.payoff.setups import NOTHING, ROWS, SHAPES
from specdec.shipped import ASSETS
from specdec.topology import Topology, named, sequence, specinfer
from tests.helpers.distributions import markov_pair


def setup(acceptance, draft, row, rest=0.0, **others):
    """The target's first row takes 1 s and each further row `row`. A draft forward pass takes `draft`."""
    target = costs.JointCost({1: {1: 1.0, 101: 1.0 + 100 * row}})
    drafting = costs.JointCost({1: {1: draft}})
    cost = costs.RoundCost(target, drafting, costs.Overhead(rest, 0.0, 0.0, 0.0))
    return SetUp(np.array(acceptance), cost, **others)


def by_hand(rate, draft, k):
    """The gain of sequence(k) with free rows."""
    return sum(rate**i for i in range(k + 1)) / (1 + draft * k)


def test_the_gain_is_that_of_the_best_tree():
    payoff = Payoff.of(setup([0.5], draft=0.1, row=0.0))
    gains = [by_hand(0.5, 0.1, k) for k in range(33)]
    assert [point.speed_up for point in payoff.curve] == pytest.approx(gains)
    assert payoff.speed_up == pytest.approx(max(gains))
    assert payoff.drafted == gains.index(max(gains))
    assert payoff.without["the time of further rows"] == pytest.approx(payoff.speed_up)
    assert payoff.without["the rejected drafts"] == pytest.approx(by_hand(1.0, 0.1, 32))
    assert payoff.halved["the draft's time"] == pytest.approx(max(by_hand(0.5, 0.05, k) for k in range(33)))


def test_it_breaks_even_where_one_drafted_token_costs_what_it_gains():
    payoff = Payoff.of(setup([0.5], draft=0.2, row=0.0))
    assert payoff.least_acceptance == pytest.approx(0.2, abs=0.01)  # 1 + rate against 1 + draft
    assert payoff.dearest_draft == pytest.approx(0.5, abs=0.01)
    hopeless = Payoff.of(setup([0.9], draft=0.0, row=2.0))
    assert (hopeless.least_acceptance, hopeless.dearest_draft) == (None, None)


LIMITS = {"the draft's time": ([0.9], 0.5, 0.0), "the time of further rows": ([0.9], 1e-3, 0.5)}
LIMITS["the rejected drafts"] = ([0.1], 1e-3, 1e-3)


@pytest.mark.parametrize("limit", LIMITS)
def test_what_limits_most_is_named(limit):
    payoff = Payoff.of(setup(*LIMITS[limit]))
    assert max(payoff.without, key=payoff.without.get) == limit
    assert f"the main limit is {limit}." in payoff.sentences()[0]


def test_a_change_that_would_lower_the_gain_is_not_told_as_a_gain():
    """Work that each round has, also of plain decoding, hides a part of the cost of drafting."""
    payoff = Payoff.of(setup([0.9], draft=0.3, row=0.01, rest=1.0))
    assert payoff.without["the work outside the two models"] < payoff.speed_up
    words = payoff.sentences()[-1]
    assert "outside" not in words
    assert f", without the time of further rows {payoff.without['the time of further rows']:.2f}." in words


def test_a_pair_that_gains_nothing_and_a_gain_within_the_error_are_told_so():
    payoff = Payoff.of(setup([0.1], draft=2.0, row=1.0))
    assert (payoff.speed_up, payoff.drafted) == (1.0, 0)
    assert "does not pay" in payoff.sentences()[0]
    payoff = Payoff.of(setup([0.114], draft=0.1, row=0.0))
    assert 1 < payoff.speed_up < 1.02
    assert payoff.least_acceptance < 0.114
    assert "no tree is 1.02 times as fast as plain decoding" in payoff.sentences()[0]


def test_nothing_is_blamed_where_nothing_limits():
    *_, last = Payoff.of(setup([1.0], draft=0.0, row=0.0)).sentences()
    assert last == "Only the size of the largest tree, k = 32, limits the gain."
    *_, last = Payoff.of(setup([0.01], draft=3.0, row=3.0)).sentences()
    assert last == "No single limit makes a difference, only several of them together."


def test_a_shape_restricts_the_trees():
    for shape, tokens in (("sequence", [1.6, 1.96]), ("batch", [1.6, 1.9]), ("best", [1.6, 1.96])):
        curve = Payoff.of(setup([0.6, 0.3], 0.0, 0.01, shape=shape)).curve
        assert [curve[k].tokens_per_call for k in (1, 2)] == pytest.approx(tokens)


@pytest.mark.parametrize(
    ("tree", "texts"), [(sequence(3), 4), (specinfer(8), 1), (Topology([(0,), (1,), (0, 0)]), 4)]
)
def test_the_gain_of_a_tree_counts_its_tokens_rows_and_levels(tree, texts):
    own = setup([0.6, 0.3, 0.05], draft=0.1, row=0.02, texts=texts)
    reach = [np.prod([[0.6, 0.3, 0.05][i] for i in path]) for path in tree.paths]
    plain = 1 + 0.02 * (texts - 1)
    seconds = 1 + 0.02 * (texts * (1 + len(reach)) - 1) + 0.1 * tree.depth
    assert gain_of(own, tree) == pytest.approx((1 + sum(reach)) * plain / seconds)


@pytest.mark.parametrize("texts", [1, 4])
def test_the_gain_of_a_tree_is_that_of_the_verdict_where_the_target_reads_tokens_again(texts):
    own = setup([0.6], draft=0.1, row=0.05, texts=texts)
    repeating = own._replace(costs=replace(own.costs, most_repeated=24))
    curve = Payoff.of(repeating).curve
    for k in (1, 2, 5):
        assert gain_of(repeating, sequence(k)) == pytest.approx(curve[k].speed_up)
        assert gain_of(repeating, sequence(k)) < gain_of(own, sequence(k))


def test_changed_values_replace_their_own_and_keep_the_rest():
    own = setup([0.5, 0.2], draft=0.1, row=0.01)
    assert changed(own, acceptance=0.75).acceptance == pytest.approx([0.75, 0.1])
    assert changed(own, acceptance=0.25).acceptance == pytest.approx([0.25, 0.1])  # in proportion
    assert changed(own, draft_step=0.3).draft_step == pytest.approx(0.3)
    assert changed(own, rest=0.2).rest == pytest.approx(0.2)
    rows = (1.1, 1.2, 1.3, 1.4, 1.5, 2.5)
    assert changed(own, rows=rows).rows == pytest.approx(rows)
    # further rows cost as much as the last ones
    assert changed(own, rows=rows).costs.target.seconds(1, 96) == pytest.approx(3.5)
    assert changed(own) == own
    for name, wrong in (("texts", 0), ("acceptance", 0.0), ("acceptance", float("nan"))):
        with pytest.raises(ValueError, match=name):
            changed(own, **{name: wrong})
    assert gain(changed(own, texts=64, rows=[float(n) for n in ROWS])) == 1  # each row costs a call


def test_known_times_of_other_numbers_of_rows_change_as_much_as_those_beside_them():
    own = setup([0.5], draft=0.1, row=0.0)
    target = costs.JointCost({1: {1: 1.0, 10: 1.0, 40: 2.0}})
    own = own._replace(costs=replace(own.costs, target=target))  # its rows: 1, 1, 1, 1.2, 1.733 and 2.8

    def seconds(rows):
        cost = changed(own, rows=rows).costs.target
        return pytest.approx([cost.seconds(1, number) for number in (4, 10, 40, 100)])

    assert seconds([1, 1, 1, 1.2, 1.73, 2.8]) == [1, 1, 2, 4]  # the own ones, as they are shown
    assert seconds([1, 1, 1.2, 1.4, 1.73, 2.8]) == [1, 1.2, 2, 4]
    assert seconds([1] * len(ROWS)) == [1, 1, 1, 1]


@pytest.mark.parametrize("arithmetic", [50e9, 190e9, 1e15])
def test_a_roofline_is_the_longer_of_reading_and_arithmetic_wherever_its_ridge_is(arithmetic):
    cost = roofline(parameters=1e9, bytes_each=1, bandwidth=50e9, arithmetic=arithmetic)
    for rows in (*range(1, 40), 10_000, 30_000):
        assert cost.seconds(1, rows) == pytest.approx(max(1e9 / 50e9, rows * 2e9 / arithmetic))


@pytest.mark.parametrize("shape", SHAPES)
def test_a_set_up_comes_back_from_json(shape):
    own = setup([0.5, 0.2], draft=0.1, row=0.01, rest=0.1, texts=2, shape=shape)
    loaded = SetUp.from_json(json.loads(json.dumps(own.as_json())))
    assert Payoff.of(loaded) == Payoff.of(own)
    assert loaded.shape == shape
    assert loaded.costs.overhead == own.costs.overhead != NOTHING


@pytest.fixture
def small(monkeypatch):
    for measured in (command, check):
        monkeypatch.setattr(measured, "load_with_progress", lambda *_, **__: markov_pair(6))


@pytest.mark.usefixtures("small")
def test_the_command_measures_a_pair(capsys, tmp_path):
    command.main([])
    assert len(capsys.readouterr().out.splitlines()) == 3
    command.main(["--json", "--texts", "3", "--save", str(tmp_path / "own.json")])
    assert json.loads(capsys.readouterr().out)["speed_up"] >= 1
    saved = json.loads((tmp_path / "own.json").read_text())
    assert SetUp.from_json(saved["setup"]).texts == 3  # measured for four rows
    with pytest.raises(ValueError, match="method = 'ar' is not one of gsd, ersd"):
        command.main(["--method", "ar"])


@pytest.mark.usefixtures("small")
def test_the_check_goes_through_all_its_stages(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(check, "CASES", check.CASES[::4])
    check.main(["--smoke", "--save", str(tmp_path / "check.json")])
    rows = json.loads((tmp_path / "check.json").read_text())["check"]
    assert len(rows) == len(check.CASES) == 2
    assert len(capsys.readouterr().out.splitlines()) == 2 + len(rows)
    for row in rows:
        assert row["predicted"] == pytest.approx(gain_of(SetUp.from_json(row["setup"]), named(row["tree"])))
        assert row["measured"]["value"] > 0


def test_committed_results_are_those_of_the_check():
    rows = json.loads((ASSETS / "results" / "payoff.json").read_text())["check"]
    assert [check.Case(*(row[name] for name in check.Case._fields)) for row in rows] == list(check.CASES)
