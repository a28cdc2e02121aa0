"""Laws of one budget of rows for several texts: in which sense it is optimal, and whose tree may change."""

from __future__ import annotations

import dataclasses
from itertools import product
from random import Random

import numpy as np
import pytest

import specdec
from specdec.decoding import auto, costs, joint_trees, run
from specdec.decoding.auto import AutoTrees
from specdec.decoding.batch import Batch
from specdec.decoding.experience import Counts
from specdec.decoding.fastest import Choice
from specdec.methods import DRAFTING
from specdec.payoff.setups import NOTHING
from specdec.theory import expected_tokens
from specdec.topology import Topology, batch, sequence
from specdec.trace import Planted
from tests.core.test_auto import joint
from tests.helpers.distributions import markov_pair, pair_of, random_table
from tests.helpers.texts import together_as_alone
from tests.theory.test_optimal import all_trees

FREE = joint(lambda rows: 1e-12 * rows)


def rate(acceptances, trees, cost):
    """Tokens per second of these trees, counted tree by tree."""
    drafting = zip(acceptances, trees, strict=True)
    tokens = sum(expected_tokens(r, tree) if tree.paths else 1 for r, tree in drafting)
    rows = len(trees) + sum(tree.num_draft_tokens for tree in trees)
    seconds = cost.target.seconds(len(trees), rows)
    for depth in range(max(tree.depth for tree in trees)):
        above = [len(tree.inner_levels[depth]) if depth < tree.depth else 0 for tree in trees]
        seconds += cost.draft.seconds(sum(map(bool, above)), sum(above))
    return tokens / seconds


def grown(acceptances, cost, most=12):
    queues = [joint_trees.queue(r, most, number) for number, r in enumerate(acceptances)]
    return joint_trees.joint_trees(queues, cost, most, len(acceptances))


@pytest.mark.parametrize("seed", range(4))
def test_no_forest_is_faster_where_a_row_s_cost_does_not_depend_on_its_text(seed):
    """Compared with all pairs of trees of up to three nodes. The target's rows and the draft's levels cost
    time."""
    random = Random(seed)
    firsts = [random.uniform(0.2, 0.9) for _ in range(2)]
    acceptances = [np.array([first, random.uniform(0, min(first, 1 - first))]) for first in firsts]
    slope, level = random.uniform(0.05, 0.4), random.choice([0.0, 0.1, 0.3])
    cost = costs.RoundCost(joint(lambda n: 1 + slope * n), joint(lambda n: level + 1e-9 * n), NOTHING)
    shapes = [Topology(tree) for k in range(4) for tree in all_trees(k, 2)]
    best = max(rate(acceptances, trees, cost) for trees in product(shapes, repeat=2))
    assert rate(acceptances, grown(acceptances, cost, 6), cost) >= best * (1 - 1e-6)


def test_a_shallow_forest_over_all_texts_is_looked_at_too():
    """Four texts with deep queues would fill the whole budget before the other texts' first tokens."""
    acceptances = [np.array([0.99])] * 4 + [np.array([0.8])] * 12
    cost = costs.RoundCost(joint(lambda n: 1.0), joint(lambda n: 0.5), NOTHING)
    queues = [joint_trees.queue(r, 16, number) for number, r in enumerate(acceptances)]
    trees = joint_trees.joint_trees(queues, cost, 64, 16)
    assert rate(acceptances, trees, cost) >= rate(acceptances, [sequence(1)] * 16, cost) > 19


def test_it_is_not_optimal_where_a_node_to_draw_from_costs_more_than_a_node():
    """The counterexample of docs/trees.md, with its numbers."""
    r = np.array([0.5, 0.24])
    cost = costs.RoundCost(joint(lambda n: 1 + 0.05 * n), joint(lambda n: 1e-3 + 0.5 * (n - 1)), NOTHING)
    assert rate([r, r], grown([r, r], cost), cost) == pytest.approx(2.172, abs=1e-3)
    better = [Topology([(0,), (1,), (0, 0)]), Topology([])]
    assert rate([r, r], better, cost) == pytest.approx(2.388, abs=1e-3)


def test_rows_of_several_texts_cost_what_was_measured_in_between():
    cost = costs.JointCost({1: {1: 1.0, 3: 3.0}, 4: {1: 4.0, 3: 6.0}})
    assert [cost.seconds(0, 0), cost.seconds(1, 3), cost.seconds(4, 4), cost.seconds(4, 12)] == [0, 3, 4, 6]
    assert cost.seconds(2, 2) == pytest.approx(2.0)
    assert cost.seconds(4, 20) == pytest.approx(8.0)


def test_the_times_of_unmeasured_numbers_of_texts_are_between_equal_and_proportional():
    """Measured times of neighbouring numbers of texts may differ a lot, or fall, by noise alone."""
    for seconds in ({7: 2.0, 8: 2.4}, {7: 2.4, 8: 2.0}, {7: 0.1, 8: 2.0}):
        cost = costs.JointCost({n: {1: each} for n, each in seconds.items()})
        times = [cost.seconds(n, n) for n in range(1, 41)]
        assert times[0] >= min(seconds.values()) / 7
        assert times[-1] <= max(seconds.values()) * 40 / 7
        assert (np.diff(times) >= 0).all()


def test_a_text_s_own_rounds_correct_the_acceptance_of_its_settings():
    pair = twins(0)
    own = Counts(np.array([10.0, 8.0]), np.array([2.0, 1.0]))
    assert own.vector() == pytest.approx([0.2, 0.1])
    for round in specdec.generate(pair, [0], topology=batch(2), max_new_tokens=100, seed=0).rounds:
        own.add(Counts.of(round, batch(2)))
    assert own.vector()[0] > 0.8


# ---------------------------------------------------------------- in a batch


def twins(order=1):
    """A pair whose draft is its target. It is always right unless its cache is wrong."""
    return pair_of(random_table(8, order, 3), random_table(8, order, 3))


@pytest.fixture
def changing(monkeypatch):
    """Trees of a batch's runs that change with every step."""
    shapes = [Topology([]), sequence(3), batch(2), Topology([]), Topology([]), specdec.topology.specinfer(6)]

    def trees(self, runs, texts):
        assert len(runs) <= texts
        self.step = getattr(self, "step", -1) + 1
        return {each: shapes[(self.step + n) % len(shapes)] for n, each in enumerate(runs) if each.follows}

    monkeypatch.setattr(AutoTrees, "trees", trees)


def auto_runs(pair, monkeypatch, **settings):
    first = Choice(Topology([]), ())
    monkeypatch.setattr(run, "first_choice", lambda *_: first)
    # at the end of a prompt of several tokens, a step ends in the middle of a round
    prompts = [[n] if n % 2 else [n, 1, 2] for n in range(6)]
    return [specdec.stream(pair, each, topology="auto", seed=n, **settings) for n, each in enumerate(prompts)]


def decoded(pair, runs):
    """Decode the runs. One more run joins after each step, and the second one leaves."""
    together, waiting = Batch(pair), list(runs)
    while together or waiting:
        if waiting:
            together.add(waiting.pop(0))
        together.step()
        if len(runs[1].rounds) == 5 and runs[1] in together:
            together.remove(runs[1])


def test_ersd_s_text_depends_on_no_tree_that_a_batch_chooses(changing, monkeypatch):
    pair = markov_pair(8, seed=3)
    runs = auto_runs(pair, monkeypatch, method="ersd", max_new_tokens=60, detail=False)
    decoded(pair, runs)
    for number, each in enumerate(runs):
        plain = specdec.generate(pair, each.prompt_ids, method="ar", max_new_tokens=60, seed=number)
        assert each.generation.token_ids == plain.token_ids[: len(each.generation.token_ids)]
        assert len({round.nodes[-1].path if round.nodes else () for round in each.rounds}) > 2
        assert each.generation.paths == ()


@pytest.mark.parametrize("method", DRAFTING)
def test_a_record_repeats_its_trees_round_by_round(changing, monkeypatch, method):
    pair = markov_pair(8, seed=3)
    runs = auto_runs(pair, monkeypatch, method=method, max_new_tokens=60, detail=False)
    decoded(pair, runs)
    del runs[1]
    records = [specdec.Generation.from_json(each.generation.to_json()) for each in runs]
    monkeypatch.undo()
    prompts, seeds = zip(*((each.prompt_ids, each.seed) for each in records), strict=True)
    repeats = together_as_alone(pair, prompts, seeds, topology=records, method=method, max_new_tokens=60)
    for record, each in zip(records, repeats, strict=True):
        assert len(record.trees) > 5
        assert (each.trees, each.token_ids) == (record.trees, record.token_ids)


def test_a_record_that_can_t_be_repeated_is_refused():
    pair = markov_pair(8, seed=3)
    record = specdec.generate(pair, [0], topology=batch(2), max_new_tokens=4, seed=0)
    empty = dataclasses.replace(record, paths=())
    for prompt, topology, method, message in (
        ([0], record, "gsd", "record of a run with method = 'ersd', but this run has 'gsd'"),
        ([1], record, "ersd", r"with prompt_ids = \(0,\), but this run has \(1,\)"),
        ([0], empty, "ersd", "is a record without trees"),
    ):
        with pytest.raises(ValueError, match=message):
            specdec.generate(pair, prompt, topology=topology, method=method)
    for trees in ([Planted(1, ((0,),))], [Planted(0, ((0,),)), Planted(0, ())], [Planted(0, ((1, 0),))]):
        text = dataclasses.replace(record, paths=(), trees=tuple(trees)).to_json()
        with pytest.raises(ValueError, match=r"trees\[\d\]\."):
            specdec.Generation.from_json(text)
    assert specdec.generate(pair, [0], topology=record, max_new_tokens=4, seed=0).paths == batch(2).paths


def test_every_drafter_repeats_trees_that_change():
    pair = markov_pair(8, seed=3)
    trees = Planted(0, ((0,),)), Planted(1, ()), Planted(2, ((0,), (1,)))
    settings = {"max_new_tokens": 20, "seed": 0}
    plain = specdec.generate(pair, [0], method="ar", **settings)
    record = dataclasses.replace(plain, method="ersd", trees=trees)
    for drafter in ("model", "model+copies", specdec.drafters.NGram(), specdec.drafters.Suffix()):
        repeat = specdec.generate(pair, [0], topology=record, drafter=drafter, **settings)
        assert (repeat.trees, repeat.token_ids) == (trees, plain.token_ids)
    pair.target.capability = "sequence"
    with pytest.raises(ValueError, match="can score sequences only"):
        specdec.generate(pair, [0], topology=record, **settings)


def test_a_draft_that_paused_goes_on_from_the_whole_text(changing, monkeypatch):
    pair = twins()
    runs = auto_runs(pair, monkeypatch, method="ersd", max_new_tokens=60, detail=True)
    decoded(pair, runs)
    nodes = [node for each in runs for round in each.rounds for node in round.nodes]
    assert len(nodes) > 50
    assert all(node.q == pytest.approx(node.p, abs=1e-6) for node in nodes if node.p is not None)


def test_a_batch_of_auto_drafts_more_for_the_text_that_accepts_more(monkeypatch):
    """After token 0 the draft is always right, after token 1 never."""
    monkeypatch.setattr(auto, "_SHARE", 1e9)  # trees are chosen in each step, however fast the machine is
    pair = pair_of(np.eye(3), [[1.0, 0, 0], [0, 0, 1], [0, 0, 1]])
    cost = costs.RoundCost(joint(lambda n: 1e3 + 10.0 * n), joint(lambda n: 1.0), NOTHING)
    monkeypatch.setattr(costs.RoundTimes, "costs", lambda *_: cost)
    g = specdec.generate_many(pair, [[0], [1]], topology="auto", max_new_tokens=200, seeds=[1, 2])
    drafted = [sum(len(round.nodes) for round in each.rounds[-4:-2]) for each in g]
    assert drafted[0] > drafted[1]
    assert [set(each.token_ids) for each in g] == [{0}, {1}]
