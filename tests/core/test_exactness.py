"""The text of whole decodes has the target's own distribution: by identity, and by χ² tests.

`tests/rules/test_other_rules.py` enumerates in rationals: the plain form of each rule is exact, and the
decoder makes the same decisions. The negative controls are in `test_losslessness.py`.
"""

from __future__ import annotations

import itertools
import math

import pytest
import torch

import specdec
from specdec.exactness.losslessness import Check, joint_distribution
from specdec.methods import DRAFTING
from specdec.models import MarkovModel
from specdec.race import Stream, keys, log_exponentials, noise, races, uniform
from specdec.race import sparse as sparse_race
from specdec.topology import Topology, batch, sequence, simple, specinfer
from tests.helpers.distributions import (
    FALSE_ALARM,
    OTHER_RULES,
    TREE,
    adversarial_pair,
    chi_square_p_value,
    first_tokens,
    markov_pair,
    pair_of,
    random_table,
)
from tests.helpers.texts import ersd_as_plain


@pytest.mark.parametrize(
    ("method", "topology"), [*zip(DRAFTING, itertools.cycle([TREE, batch(4), sequence(3)]))], ids=str
)
def test_decoding_on_sparse_races_gives_the_same_text(method, topology, monkeypatch):
    """Sparse races of large vocabularies, tested on sixteen tokens of which about two are early."""
    pair, settings = adversarial_pair(), {"method": method, "topology": topology, "max_new_tokens": 200}
    dense = [specdec.generate(pair, [0], seed=seed, **settings) for seed in range(3)]
    monkeypatch.setattr(races, "LARGE", 0)
    monkeypatch.setattr(sparse_race, "EARLY", 2)
    sparse = [specdec.generate(pair, [0], seed=seed, **settings) for seed in range(3)]
    assert [run.token_ids for run in sparse] == [run.token_ids for run in dense]


def begun(pair, method, topology, seed, **settings):
    """The first two tokens of a text that is longer, so that their trees are not cut."""
    settings |= {"method": method, "max_new_tokens": 2 + topology.depth, "detail": False}
    return first_tokens(specdec.stream(pair, [0], topology=topology, seed=seed, **settings), 2)


END_TO_END = [("ersd", sequence(2)), ("gsd", simple()), ("gsd", batch(4)), ("traversal", sequence(2))]
END_TO_END += [("specinfer", batch(4)), *((rule, TREE) for rule in ("gsd", *OTHER_RULES))]
"""Each rule on a tree, and each shape under a rule."""


@pytest.mark.slow
@pytest.mark.parametrize(("method", "topology"), END_TO_END, ids=str)
def test_a_rule_end_to_end_has_the_targets_distribution(method, topology):
    """A χ² test of the first two tokens, with 16 tokens and q ∝ 1/p. A false alarm has probability 1e-6
    for each. The control is the distribution of the draft."""
    pair = adversarial_pair()
    runs = [begun(pair, method, topology, seed) for seed in range(2000)]
    target, draft = (joint_distribution(model, [0], 2) for model in (pair.target, pair.draft))
    assert chi_square_p_value(runs, target) > FALSE_ALARM
    assert chi_square_p_value(runs, draft) < FALSE_ALARM


@pytest.mark.parametrize("method", ["gsd", *OTHER_RULES])
def test_a_rule_never_decides_twice_with_the_same_uniform(method, monkeypatch):
    keys = []
    monkeypatch.setattr(noise, "uniform", lambda *key: keys.append(key) or uniform(*key))
    specdec.generate(markov_pair(6), [0], method=method, topology=TREE, max_new_tokens=200, seed=1)
    # positions that were not reached are drafted again
    decided = [key for key in keys if Stream.AGAIN not in key]
    assert len(decided) > 100
    assert len(set(decided)) == len(decided)


ROUNDING, COLD = 64 * torch.finfo(torch.float32).eps, 2.0**-20
LOW_TEMPERATURES = {
    "all of q but one token rounds to zero": (
        (torch.tensor([0.0, -0.005, -0.01]).double(), torch.tensor([0.0, -10.0, -20.0]).double()),
        (batch(3), 0.01),
    ),
    # if they were divided before subtracting their maximum, their rounding would make them differ
    "logits around 100 are a rounding apart": (
        [100 + ROUNDING * torch.tensor(steps) for steps in ((2.0, 1.0, 0.0), (0.0, 1.0, 2.0))],
        (sequence(1), 3e-6),
    ),
    # subtracting the normaliser would round the draft's last two tokens to one difference
    "float32 logits are half a unit apart at -8388608": (
        [torch.tensor([-math.inf] * 2 + [0.0, 0.0]), COLD * torch.tensor([0, 0, -8388607.5, -8388608])],
        (batch(3), COLD),
    ),
}
for cold in (1e-5, 1e-16, 1e-300):
    # two tokens share the draft's probability outside its favourite; which of them comes must stay random
    shared = [torch.tensor(p).double().log() for p in ([0.0, 0.5, 0.5], [0.5, 0.25, 0.25])]
    LOW_TEMPERATURES[f"only noise decides at {cold}"] = shared, (batch(2), cold)


@pytest.mark.parametrize("case", LOW_TEMPERATURES)
def test_gsd_is_exact_at_low_temperatures(case):
    """A χ² test of two tokens in 2,000 runs. A false alarm has probability 1e-6."""
    tables, (topology, temperature) = LOW_TEMPERATURES[case]
    pair = specdec.ModelPair(*(MarkovModel(torch.full((len(t),), 1 / len(t))) for t in tables))
    for model, table in zip((pair.target, pair.draft), tables, strict=True):
        model.log_table = table
    runs = [begun(pair, "gsd", topology, s, temperature=temperature) for s in range(2000)]
    p = torch.softmax((tables[0] - tables[0].max()).double() / temperature, -1).tolist()
    distribution = {(i, j): x * y for i, x in enumerate(p) for j, y in enumerate(p)}
    assert chi_square_p_value(runs, distribution) > FALSE_ALARM


def test_ersd_on_another_race_is_no_longer_autoregressive(monkeypatch):
    """Negative control of drafter invariance: verification must race on the race of the position."""
    pair = markov_pair(8, seed=3)
    plain = specdec.generate(pair, [0], method="ar", max_new_tokens=200, seed=1)

    def of_another_race(self, log_p):
        return int((self.exponentials.flip(-1) - log_p).argmin())

    monkeypatch.setattr(races.HostRace, "winner", of_another_race)
    assert specdec.generate(pair, [0], max_new_tokens=200, seed=1).token_ids != plain.token_ids


@pytest.mark.parametrize("order", range(3))
def test_ersd_is_drafter_invariant_over_drafts_and_topologies(order):
    pair = pair_of(random_table(12, 2, order), random_table(12, order, 100 + order))
    shapes = [simple(), sequence(5), batch(6), specinfer(8), specdec.optimal_topology([0.5, 0.2, 0.1], 16)]
    ersd_as_plain(pair, [1, 2], shapes, [order], max_new_tokens=200)


def test_noise_of_neighbouring_positions_and_seeds_is_independent():
    """The correlation of uniform noise is below 5 standard errors (a false alarm has probability below
    1e-6)."""
    e = log_exponentials(7, range(64), 512).exp().flatten()
    other = log_exponentials(8, range(64), 512).exp().flatten()
    shifted = e.roll(512)
    for x in (other, shifted, e.roll(1)):
        assert abs(float(torch.corrcoef(torch.stack([e, x]))[0, 1])) < 5 / math.sqrt(len(e))


BEYOND_DOUBT = 1e-12
"""A fault's p-value from which on more decodes would tell nothing: it only falls."""


def checked(pair, topology, decodes=2000):
    """The p-value of traversal's first two tokens in so many decodes, or in fewer if they leave no doubt."""
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


DISTRIBUTIONS = {
    "the same": ([0.5, 0.3, 0.2, 0.0], [0.5, 0.3, 0.2, 0.0]),
    "disjoint": ([0.7, 0.3, 0.0, 0.0], [0.0, 0.0, 0.4, 0.6]),
    "a draft of half the tokens": ([0.25, 0.25, 0.25, 0.25], [0.6, 0.4, 0.0, 0.0]),
    "a target of half the tokens": ([0.6, 0.4, 0.0, 0.0], [0.25, 0.25, 0.25, 0.25]),
    "a sure draft": ([0.1, 0.2, 0.3, 0.4], [1.0, 0.0, 0.0, 0.0]),
}


@pytest.mark.slow
@pytest.mark.parametrize("distributions", DISTRIBUTIONS)
@pytest.mark.parametrize("rule", DRAFTING)
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
