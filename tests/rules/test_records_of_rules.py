"""Records of the rules of other papers say what was decided and what could be accepted."""

import itertools
from functools import cache

import pytest
import torch

import specdec
from specdec import theory
from specdec.drafters.independent import with_replacement
from specdec.methods import METHODS
from specdec.race import PositionNoise, Races
from specdec.stats import acceptance_by_index, index_counts
from specdec.topology import Topology, batch
from tests.helpers.distributions import FALSE_ALARM, OTHER_RULES, chi_square_p_value, markov_pair

TREE = Topology([(0,), (1,), (2,), (0, 0), (0, 1), (1, 0), (0, 0, 0)])


@cache
def rounds_of(rule):
    """The rounds of 400 tokens on the tree."""
    return run(rule).rounds


def run(rule, topology=TREE, **settings):
    pair = settings.pop("pair", None) or markov_pair(6)
    settings = {"max_new_tokens": 400, "seed": 1, "detail": True} | settings
    return specdec.generate(pair, [0, 1], method=rule, topology=topology, **settings)


@pytest.mark.parametrize("rule", ["gsd", *OTHER_RULES])
def test_tests_are_of_nodes_that_are_rejected_or_accepted_as_they_say(rule):
    kinds = set()
    for round in rounds_of(rule):
        status = {node.path: (node.status, node.token_id) for node in round.nodes}
        for step in round.steps:
            for trial in step.trials:
                assert trial.accepted == (trial.u < trial.ratio)
                assert status[trial.path][1] == trial.token_id
                assert (status[trial.path][0] == "accepted") >= trial.accepted
                is_accepted_later = any(other.accepted and other.path == trial.path for other in step.trials)
                assert trial.accepted or is_accepted_later or status[trial.path][0] == "rejected"
                kinds.add((trial.accepted, len(trial.path) - len(step.path)))
    assert kinds >= {(True, 1), (False, 1)}
    assert any(depth > 1 for _, depth in kinds) == (rule == "traversal")


@pytest.mark.parametrize("rule", ["gsd", *OTHER_RULES])
def test_what_was_not_tested_is_unvisited_or_beside_an_accepted_node(rule):
    for round in rounds_of(rule):
        status = {node.path: node.status for node in round.nodes} | {(): "accepted"}
        tested = {trial.path for step in round.steps for trial in step.trials}
        for path in status.keys() - tested - {()}:
            beside = status[path[:-1]] == "accepted"
            assert status[path] == ("rejected" if beside else "unvisited") or rule == "traversal"
            if rule == "traversal" and status[path] == "accepted":
                # leaves are tested first: if the last node of a path passes, the nodes above it need no test
                assert any(status[p] == "accepted" and p[: len(path)] == path for p in tested)


@pytest.mark.parametrize("rule", ["specinfer", "spectr"])
def test_independent_draws_that_are_equal_are_one_node_with_a_test_each(rule):
    rounds = run(rule, batch(4)).rounds[:-1]
    assert {len(round.nodes) for round in rounds} == {1, 2, 3, 4}
    assert any(len(step.trials) > len(round.nodes) for round in rounds for step in round.steps)
    for round in rounds:
        assert len({node.token_id for node in round.nodes}) == len(round.nodes)
        for step in round.steps:
            if step.kind == "residual":
                assert len(step.trials) == 4  # all draws were rejected, also the equal ones


@pytest.mark.parametrize("rule", OTHER_RULES)
def test_the_first_child_is_the_first_arrival_under_q(rule):
    for round in rounds_of(rule):
        tokens = {node.path: node.token_id for node in round.nodes}
        for step in round.steps:
            if (*step.path, 0) in tokens:
                assert tokens[*step.path, 0] == step.winner_q


@pytest.mark.parametrize("rule", OTHER_RULES)
def test_nodes_below_rejected_ones_say_nothing_of_what_a_node_accepts(rule):
    rounds = rounds_of(rule)
    rates = acceptance_by_index(rounds)
    firsts = [round.nodes[0] for round in rounds if round.nodes]
    reached = index_counts(rounds, TREE).reached
    assert rates[0].offered == reached[0]
    accepted = sum(len(round.tokens) - 1 for round in rounds)
    assert sum(rate.accepted for rate in rates) == accepted
    assert len(firsts) <= rates[0].offered <= len(firsts) + accepted


@pytest.mark.parametrize("rule", ["ar", "gsd", "ersd", *OTHER_RULES])
def test_a_step_says_what_any_rule_can_accept_there(rule):
    pair, num_optima = markov_pair(6), 0
    g = run(rule, pair=pair, max_new_tokens=60)
    for round in g.rounds:
        tokens = {node.path: node.token_id for node in round.nodes}
        tokens[()] = [*g.prompt_ids, *g.token_ids][round.position - 1]
        drafted = {node.path[:-1] for node in round.nodes}
        for step in round.steps:
            assert (step.optimum is None) == (step.path not in drafted)
            is_whole = len(round.nodes) == len(g.paths)
            if step.optimum is not None and is_whole:
                p, q = (model.log_table[tokens[step.path]].exp() for model in (pair.target, pair.drafting))
                count = sum(path[:-1] == step.path for path in g.paths)
                exact = theory.optimal_acceptance(p, q, count, METHODS[rule].independent)
                assert step.optimum == pytest.approx(float(exact), abs=1e-6)
                num_optima += 1
    assert (num_optima > 3) == (rule != "ar")


@pytest.mark.parametrize(("count", "every"), [(2, 1), (3, 8)])
def test_several_drafts_from_many_tokens_have_an_optimum_at_every_eighth_position(count, every, monkeypatch):
    monkeypatch.setattr("specdec.decoding.detail.SOME_TOKENS", 5)
    steps = [round.steps[0] for round in run("ersd", batch(count), max_new_tokens=60).rounds[:-1]]
    positions = [step.position for step in steps if step.optimum is not None]
    assert positions == [step.position for step in steps if step.position % every == 0]
    assert positions


def test_ersd_accepts_much_of_the_optimum_and_not_more():
    """Accepted positions of a long text on batch(3), compared with the sum of their optima. A false alarm has
    probability 1e-6."""
    g = run("ersd", batch(3), max_new_tokens=2000)
    steps = [round.steps[0] for round in g.rounds if round.nodes]
    accepted, most = sum(step.kind == "accepted" for step in steps), [step.optimum for step in steps]
    spread = 4.9 * sum(x * (1 - x) for x in most) ** 0.5
    assert 0.7 * sum(most) < accepted < sum(most) + spread


# ---------------------------------------------------------------- independent draws


def test_tokens_that_go_on_arriving_are_independent_samples():
    """A χ² test of three draws of three tokens, 10,000 times. A false alarm has probability 1e-6."""
    q = torch.tensor([0.6, 0.3, 0.1], dtype=torch.float64)
    samples = []
    for seed in range(10_000):
        times = specdec.race.log_exponentials(seed, [5], 3)[0] - q.log()
        order = times.argsort()
        waits = PositionNoise(Races(seed, 3), 5).log_waits(0, 3)
        sample = with_replacement(order.tolist(), times[order].tolist(), q[order].log().tolist(), waits)
        samples.append(tuple(sample))
    distribution = {tokens: float(q[list(tokens)].prod()) for tokens in itertools.product(range(3), repeat=3)}
    assert chi_square_p_value(samples, distribution) > FALSE_ALARM


def test_a_distribution_of_one_token_is_drawn_again_and_again():
    assert with_replacement([4], [-700.0], [0.0], [0.5, -0.5, 3.0]) == [4, 4, 4]
    cold = with_replacement([4, 2], [0.0, 900.0], [0.0, -900.0], [0.1, 0.2, 0.3])
    assert cold == [4, 4, 4]
