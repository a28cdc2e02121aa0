"""The rules of other papers on whole decodes: the text has the target's distribution, by enumeration and by
χ²."""

import pytest

import specdec
from specdec.exactness.faults import FAULTS
from specdec.exactness.losslessness import Check, joint_distribution
from specdec.models import MarkovModel
from specdec.race import keys, noise
from specdec.topology import Topology, batch, sequence, simple
from tests.helpers.choice import distribution_by_choice
from tests.helpers.distributions import (
    FALSE_ALARM,
    OTHER_RULES,
    TREE,
    adversarial_pair,
    chi_square_p_value,
    distance,
    first_tokens,
    markov_pair,
    pair_of,
)

# ---------------------------------------------------------------- by enumeration, over several rounds


CASES = [("gsd", batch(3)), ("traversal", simple()), ("specinfer", batch(2)), ("spectr", sequence(2))]
CASES += [(rule, TREE) for rule in ("gsd", *OTHER_RULES)]


@pytest.mark.slow
@pytest.mark.parametrize(("rule", "topology"), CASES, ids=str)
def test_a_rule_has_the_targets_joint_distribution_by_enumeration(rule, topology, monkeypatch):
    """Two tokens, or three if one is drafted: up to three rounds."""
    pair, length = markov_pair(3, seed=1), 3 if topology == simple() else 2
    found = distribution_by_choice(rule, pair, topology, length, monkeypatch)
    assert distance(found, joint_distribution(pair.target, [0], length)) < 1e-12


@pytest.mark.parametrize("fault", ["kept-target", "kept-draft", "no-threshold"])
def test_enumeration_catches_a_verifier_without_one_of_its_parts(fault, monkeypatch):
    pair, (rule, verifier) = markov_pair(3, seed=1), (FAULTS[fault].method, FAULTS[fault].verifier)
    found = distribution_by_choice(rule, pair, batch(2), 2, monkeypatch, verifier)
    assert distance(found, joint_distribution(pair.target, [0], 2)) > 1e-3


# ---------------------------------------------------------------- whole decodes, by χ²


BEYOND_DOUBT = 1e-12
"""A fault's p-value from which on more decodes would tell nothing: it only falls."""


def checked(pair, topology, decodes=2000):
    """The p-value of traversal's first two tokens of so many decodes. Where fewer leave no doubt, they will
    do."""
    check = Check(pair, [0], method="traversal", topology=topology, length=2, seed=0)
    while check.decodes < decodes and check.chi_square().p_value > BEYOND_DOUBT:
        for _ in range(500):
            check.decode()
    return check.chi_square().p_value


def by_position(seed, position, path):
    return keys.key_of(seed, keys.Stream.ROUND, position + len(path)) + sum(path)


def by_depth(seed, position, path, of_node=keys.node_seed):
    return of_node(seed, position, (0,) * len(path))


@pytest.mark.slow
@pytest.mark.parametrize(("shared", "topology"), [(by_position, sequence(2)), (by_depth, TREE)])
def test_traversal_must_not_see_noise_twice(shared, topology, monkeypatch):
    """A χ² test, in which a false alarm has probability 1e-6. It detects noise that is kept for the same
    position of the next round, and noise that several nodes of a depth share. Independent noise for each node
    of each round passes."""
    pair = pair_of([0.5, 0.5], [0.9, 0.1])
    assert checked(pair, topology) > FALSE_ALARM
    monkeypatch.setattr(noise, "node_seed", shared)
    assert checked(pair, topology) < FALSE_ALARM


# ---------------------------------------------------------------- extreme distributions


DISTRIBUTIONS = {
    "the same": ([0.5, 0.3, 0.2, 0.0], [0.5, 0.3, 0.2, 0.0]),
    "disjoint": ([0.7, 0.3, 0.0, 0.0], [0.0, 0.0, 0.4, 0.6]),
    "a draft of half the tokens": ([0.25, 0.25, 0.25, 0.25], [0.6, 0.4, 0.0, 0.0]),
    "a target of half the tokens": ([0.6, 0.4, 0.0, 0.0], [0.25, 0.25, 0.25, 0.25]),
    "a sure draft": ([0.1, 0.2, 0.3, 0.4], [1.0, 0.0, 0.0, 0.0]),
}


@pytest.mark.slow
@pytest.mark.parametrize("distributions", DISTRIBUTIONS)
@pytest.mark.parametrize("rule", OTHER_RULES)
def test_laws_without_support_or_residual(rule, distributions):
    """A χ² test of two tokens of 500 runs on a tree with more children than the draft has tokens. A false
    alarm has probability 1e-6 for each."""
    p, q = DISTRIBUTIONS[distributions]
    pair = pair_of(p, q)
    tree = Topology([(0,), (1,), (2,), (0, 0), (0, 1), (1, 0)])
    settings = {"method": rule, "topology": tree, "max_new_tokens": 4}
    runs = [specdec.generate(pair, [0], seed=seed, **settings) for seed in range(500)]
    assert all(q[node.token_id] > 0 for run in runs for round in run.rounds for node in round.nodes)
    tokens = [tuple(run.token_ids[:2]) for run in runs]
    assert chi_square_p_value(tokens, joint_distribution(pair.target, [0], 2)) > FALSE_ALARM
    if distributions == "the same":
        assert all(run.rounds[0].tokens[0].kind == "accepted" for run in runs)


@pytest.mark.slow
@pytest.mark.parametrize(("rule", "topology"), [("traversal", TREE), ("specinfer", TREE), ("spectr", None)])
def test_a_rule_keeps_a_nucleus_of_the_target(rule, topology):
    """A χ² test of two tokens, with top_p = 0.9 for both models. A false alarm has probability 1e-6."""
    pair = adversarial_pair()
    settings = {"method": rule, "topology": topology, "top_p": 0.9, "max_new_tokens": 6, "detail": False}
    runs = [first_tokens(specdec.stream(pair, [0], seed=s, **settings), 2) for s in range(1200)]
    table = specdec.probs.log_probs(pair.target.log_table, specdec.probs.Sampling(top_p=0.9)).exp()
    distribution = joint_distribution(MarkovModel(table), [0], 2)
    assert chi_square_p_value(runs, distribution) > FALSE_ALARM
