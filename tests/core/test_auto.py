"""Laws of the choice of a tree: by expected tokens per second, plain decoding included."""

from __future__ import annotations

import dataclasses
import pickle

import numpy as np
import pytest
import torch

import specdec
from specdec import stats, theory, topology
from specdec.decoding import auto, costs, trial
from specdec.methods import DRAFTING, METHODS
from specdec.models import MarkovModel
from specdec.probs import Sampling
from specdec.settings import RunSettings
from tests.helpers.distributions import random_table
from tests.helpers.tokenizers import byte_level_tokenizer

COUNTS = (1, 2, 3, 5, 9, 17, 33)
ONE_SECOND, FREE = (costs.ForwardCost({n: [seconds] for n in COUNTS}) for seconds in (1.0, 1e-9))


def pair_of_twins() -> specdec.ModelPair:
    table = random_table(6, 0, 3)
    return specdec.ModelPair(MarkovModel(table), MarkovModel(table))


def at_once(found):
    """Steps that need none."""
    return found
    yield


def chosen(monkeypatch, draft_seconds: float, target_seconds) -> specdec.Topology:
    """What auto takes of a draft that is always right, at these costs and no others."""
    target = costs.ForwardCost({n: [target_seconds(n)] for n in COUNTS})
    draft = costs.ForwardCost({n: [draft_seconds] for n in COUNTS})
    monkeypatch.setattr(auto, "forward_costs", lambda *_: at_once([target, draft]))
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


def test_the_tree_shrinks_as_more_runs_share_a_forward(monkeypatch):
    """Up to eight rows cost the same, and each further one an eighth of that."""

    def forward_costs(models, most, texts):
        target = costs.ForwardCost({n: [1e3 * max(1.0, n * texts / 8)] for n in range(1, most + 1)})
        return steps([target, FREE])

    steps = at_once
    monkeypatch.setattr(auto, "forward_costs", forward_costs)
    pair = specdec.ModelPair(*(MarkovModel(random_table(6, 1, seed)) for seed in (1, 2)))
    settings = RunSettings("ersd", 8, Sampling(), 0, False)
    choices = [auto.finished(auto.choosing(pair, settings, runs)) for runs in (1, 2, 3, 4, 8)]
    sizes = [choice.topology.num_draft_tokens for choice in choices]
    assert sizes[0] > sizes[1] > sizes[3] == 1
    assert sizes[4] == 0
    assert sizes[2] == sizes[3]  # one measurement up to a power of two
    assert len(pair.choices) == 4


def test_busy_moments_do_not_count_and_more_tokens_never_cost_less():
    busy = costs.ForwardCost({1: [1.0] * 6 + [50.0] * 2, 5: [2.0] * 6 + [1e3] * 2})
    falling = costs.ForwardCost({1: [1.0], 2: [3.0], 5: [2.0]})
    assert [busy.seconds(n) for n in (1, 3, 5, 9)] == [1.0, 1.5, 2.0, 3.0]  # beyond, as between the last two
    assert [falling.seconds(n) for n in (1, 2, 3, 5)] == [1.0, 3.0, 3.0, 3.0]


def test_the_record_says_among_what_the_tree_was_chosen():
    pair = pair_of_twins()
    g = specdec.generate(pair, [0], topology="auto", max_new_tokens=4, seed=0)
    acceptance = specdec.measure_acceptance(pair)
    assert g.choice[0].paths == ()
    for candidate in g.choice:
        expected = theory.expected_tokens(acceptance, candidate.topology) if candidate.paths else 1.0
        assert candidate.expected_tokens == pytest.approx(expected)
        assert candidate.tokens_per_second == pytest.approx(1000 * expected / candidate.milliseconds.total)
    best = max(g.choice, key=lambda candidate: candidate.tokens_per_second)
    assert [candidate.chosen for candidate in g.choice] == [candidate is best for candidate in g.choice]
    assert best.paths == g.paths
    assert specdec.Generation.from_json(g.to_json()) == g
    assert specdec.generate(pair, [0], max_new_tokens=4, seed=0).choice is None


@pytest.mark.parametrize("texts", [1, 4])
@pytest.mark.parametrize("most_repeated", [0, 3])
def test_a_round_costs_what_it_took_in_the_trial(texts, most_repeated):
    """Without drafts, which is charged no draft's time, and with one and four drafted tokens in a row."""
    seconds, acceptance = {0: 1.0, 1: 3.0, 4: 6.6}, np.array([0.5])
    target = costs.JointCost({texts: costs.ForwardCost({1: [0.3], 9: [0.6]})})
    draft = costs.JointCost({texts: costs.ForwardCost({1: [0.1]})})
    cost = costs.RoundCost(target, draft, {}, most_repeated)
    measured = trial.Measurement(acceptance, seconds, 0.01)
    cost = dataclasses.replace(cost, overheads={texts: auto._overhead(measured, measured, texts, cost)})
    candidates = auto.chosen(acceptance, cost, texts).candidates
    found = {len(each.paths): each.milliseconds.total / 1000 for each in candidates}
    assert [found[k] for k in seconds] == pytest.approx(list(seconds.values()))


def test_the_wide_tree_tells_what_a_further_node_costs():
    pair = pair_of_twins()
    settings = RunSettings("gsd", 1, Sampling(), None, False)
    trials = {
        tree: trial._Trial(pair, settings, [[0]], tree, 1, 8, 0.0) for tree in (*trial._TIMED, trial._WIDE)
    }
    for tree, one in trials.items():
        while one.pending:
            one.step()
        rest = 3.0 + 0.5 * (tree.num_draft_tokens - 1)  # seconds outside the forwards
        seconds = dataclasses.replace(one.rounds[0].seconds, verify=0.0, rest=rest)
        nodes = one.rounds[0].nodes[:1] * tree.num_draft_tokens
        one.rounds = [dataclasses.replace(one.rounds[0], seconds=seconds, nodes=nodes)]
    assert trial._measured(trials).node == pytest.approx(0.5)


@pytest.mark.parametrize("context_length", [1, 2, 3, 4, 6])
def test_a_draft_that_reads_little_is_measured_on_smaller_trees(context_length):
    table = random_table(6, 0, 3)
    pair = specdec.ModelPair(MarkovModel(table), MarkovModel(table, context_length=context_length))
    assert specdec.measure_acceptance(pair, method="gsd")[0] == 1.0
    settings = RunSettings("gsd", 1, Sampling(), None, False)
    assert auto.finished(auto.choosing(pair, settings, 2)).topology.num_draft_tokens in auto.SIZES


def test_the_work_outside_the_models_is_that_of_the_number_of_texts():
    """The first figure is shared by all texts, each text has the second, and the third is partly shared."""
    alone, four = costs.Overhead(4.0, 1.0, 2.0, 0.0), costs.Overhead(1.0, 1.0, 1.25, 0.0)
    cost = costs.RoundCost(costs.JointCost({1: FREE}), costs.JointCost({1: FREE}), {1: alone, 4: four})
    two, forty = costs.Overhead(2.0, 1.0, 1.5, 0.0), costs.Overhead(0.1, 1.0, 1.025, 0.0)
    assert [cost.overhead(texts) for texts in (1, 2, 4, 40)] == [alone, two, four, forty]


def test_a_server_that_is_asked_for_many_temperatures_forgets_the_oldest(monkeypatch):
    monkeypatch.setattr(trial, "_REMEMBERED", 3)
    pair = pair_of_twins()
    for temperature in (0.5, 0.6, 0.7, 0.8, 0.9):
        specdec.measure_acceptance(pair, [0], temperature=temperature)
    assert [sampling.temperature for _, sampling, *_ in pair.measurements] == [0.7, 0.8, 0.9]
    assert len(pickle.dumps(pair.measurements)) < 4096  # what was found, and not the rounds


GRID = [
    {"temperature": temperature, "top_p": top_p, "top_k": top_k}
    for temperature in (0.0, 0.3, 0.7, 1.0, 2.0)
    for top_p in (0.05, 0.5, 0.9, 1.0)
    for top_k in (0, 1, 5)
]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["gsd", "ersd"])
def test_every_sampling_has_a_tree_of_its_own(method, monkeypatch):
    """Nodes have as many children as q has support: rates over the nodes that have one need not sum to 1."""
    monkeypatch.setattr(trial, "_WIDE_TOKENS", 64)
    monkeypatch.setattr(trial, "_TIMED", dict.fromkeys(trial._TIMED, (8, 0.0)))
    monkeypatch.setattr(costs, "REPEATS", 1)
    pair = specdec.ModelPair(*(MarkovModel(random_table(12, 1, seed)) for seed in (1, 2)))
    rose = 0
    for sampling in GRID:
        acceptance = specdec.measure_acceptance(pair, method=method, **sampling)
        assert (acceptance >= 0).all()
        assert acceptance.sum() <= 1 + 1e-12
        assert specdec.optimal_topology(acceptance, 5).num_draft_tokens == 5
        g = specdec.generate(pair, [1], method=method, topology="auto", max_new_tokens=3, seed=0, **sampling)
        assert len(g.token_ids) == 3
        rose += bool((np.diff(acceptance) > 0).any())
    assert rose, "a running minimum over what was measured would show here"


def test_rates_over_different_counts_may_sum_to_more_than_one():
    """The control: what the estimate did before it multiplied conditional chances."""
    pair = specdec.ModelPair(*(MarkovModel(random_table(12, 1, seed)) for seed in (1, 2)))
    g = specdec.generate(
        pair, [1], method="gsd", topology=topology.batch(8), max_new_tokens=300, top_p=0.9, seed=0
    )
    counts = stats.index_counts(g.rounds, topology.batch(8))
    assert min(counts.offered) < max(counts.offered)
    assert stats.acceptance_vector(counts.accepted, counts.reached).sum() <= 1 + 1e-12


def test_a_child_that_is_accepted_where_the_first_never_is(monkeypatch):
    """R = (0, 1): the draft's favourite is never the target's, its second one always is."""
    p, q = torch.tensor([0.0, 1.0, 0.0]), torch.tensor([1 - 1e-9, 1e-9, 0.0])
    pair = specdec.ModelPair(MarkovModel(p), MarkovModel(q))
    for method in ("gsd", "ersd"):
        assert specdec.measure_acceptance(pair, method=method).tolist()[:2] == [0.0, 1.0]
        monkeypatch.setattr(auto, "forward_costs", lambda *_: at_once([ONE_SECOND, FREE]))
        g = specdec.generate(pair, [0], method=method, topology="auto", max_new_tokens=20, seed=0)
        assert g.block_efficiency >= 2.0
        assert g.paths[:2] == ((0,), (1,))
        learnt = specdec.learn.learn_context(pair, [[0]], method=method, tokens=50)
        assert learnt.average[:2] == (0.0, 1.0)
    assert specdec.optimal_topology([0, 1], 2).paths == ((0,), (1,))


def test_a_draft_that_is_never_right_is_told_from_one_that_was_not_asked_enough():
    p, q = torch.tensor([0.0, 1.0, 0.0]), torch.tensor([1.0, 0.0, 0.0])
    pair = specdec.ModelPair(MarkovModel(p), MarkovModel(q))
    assert specdec.generate(pair, [0], topology="auto", max_new_tokens=4, seed=0).token_ids == [1, 1, 1, 1]
    with pytest.raises(ValueError, match="tokens = 30"):
        specdec.learn.learn_context(pair, [[0]], tokens=30)
    with pytest.raises(ValueError, match="no child is ever accepted"):
        specdec.optimal_topology([0, 0], 2)


def test_what_is_measured_does_not_depend_on_who_comes_first():
    """Two servers whose first visitors have other prompts grow the same tree."""
    found = []
    for prompt in ([0], [3]):
        pair = pair_of_twins()
        specdec.generate(pair, prompt, method="gsd", topology="auto", max_new_tokens=2, seed=0)
        found.append(specdec.measure_acceptance(pair, method="gsd").tolist())
    assert found[0] == found[1]


@pytest.mark.parametrize("method", DRAFTING)
def test_trees_grow_from_an_acceptance_that_all_trees_share(method):
    """Of the first child, alone and beside seven: 2,000 tokens, five standard errors (false alarm 1e-6)."""
    pair = specdec.ModelPair(*(MarkovModel(random_table(6, 0, seed)) for seed in (3, 5)))
    first = []
    for tree in (topology.sequence(1), topology.batch(8)):
        g = specdec.generate(pair, [0], method=method, topology=tree, max_new_tokens=2000, seed=1)
        first.append(stats.acceptance_by_index(g.rounds)[0])
    apart = abs(first[0].rate - first[1].rate) * min(entry.offered for entry in first) ** 0.5
    assert apart < 3.5 or not METHODS[method].by_index
    if method == "spectr":  # the control: one threshold for all, which rises with their number
        assert apart > 3.5
    grown_from = specdec.measure_acceptance(pair, [0], method=trial.measured_as(method))
    assert (specdec.measure_acceptance(pair, [0], method=method) == grown_from).all()
    assert (trial.measured_as(method) == method) == METHODS[method].by_index


def test_a_prompt_of_ones_own_is_measured_for_itself():
    """Behind token 0 the draft is always right, behind token 1 never."""
    p = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    q = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 1.0]])
    pair = specdec.ModelPair(MarkovModel(p), MarkovModel(q))
    assert specdec.measure_acceptance(pair, [0])[0] == 1.0
    assert specdec.measure_acceptance(pair, [1])[0] < 0.01


def test_acceptance_is_that_of_the_text_after_a_long_prompt():
    """Behind token 0 the draft is always right, behind token 1 never; the prompt ends with the other one."""
    p = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    q = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 1.0]])
    pair = specdec.ModelPair(MarkovModel(p), MarkovModel(q))
    assert specdec.measure_acceptance(pair, [1] * 100 + [0])[0] == 1.0
    assert specdec.measure_acceptance(pair, [0] * 100 + [1])[0] < 0.01


def test_a_broken_chat_template_ends_no_measurement():
    tokenizer = byte_level_tokenizer()
    tokenizer.chat_template = "{{ 1 / 0 }}"
    table = torch.full((len(tokenizer),), 1 / len(tokenizer))
    pair = specdec.ModelPair(MarkovModel(table), MarkovModel(table), tokenizer)
    assert specdec.measure_acceptance(pair)[0] == 1


def test_measuring_stops_between_its_rounds_and_takes_what_another_one_has_found():
    pair = pair_of_twins()
    settings = RunSettings("gsd", 1, Sampling(), None, False)
    mine = trial.measuring(pair, settings)
    next(mine)
    assert sum(1 for _ in auto.choosing(pair, settings)) > 20
    assert auto.finished(mine) is auto.finished(trial.measuring(pair, settings))
    assert list(auto.choosing(pair, settings)) == []
