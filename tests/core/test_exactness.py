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
from specdec.exactness.losslessness import joint_distribution
from specdec.methods import DRAFTING
from specdec.models import MarkovModel
from specdec.race import Stream, log_exponentials, noise, races, uniform
from specdec.race import sparse as sparse_race
from specdec.race.races import races_of
from specdec.topology import batch, sequence, simple, specinfer
from tests.core.test_algorithms import KINDS, WIDE, random_pair
from tests.helpers.distributions import (
    FALSE_ALARM,
    OTHER_RULES,
    TREE,
    adversarial_pair,
    chi_square_p_value,
    markov_pair,
    pair_of,
    random_table,
    texts,
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


END_TO_END = [("ersd", sequence(2)), *((rule, TREE) for rule in ("gsd", *OTHER_RULES))]
"""Each rule once. The decisions on other shapes are compared exactly, in `test_algorithms.py` and
`tests/rules/test_other_rules.py`."""


@pytest.mark.slow
@pytest.mark.parametrize(("method", "topology"), END_TO_END, ids=str)
def test_a_rule_end_to_end_has_the_targets_distribution(method, topology):
    """A χ² test of the first two tokens, with 16 tokens and q ∝ 1/p. A false alarm has probability 1e-6
    for each. The control is the distribution of the draft."""
    pair = adversarial_pair()
    runs = [*texts(pair, method, topology, 2000)]
    target, draft = (joint_distribution(model, [0], 2) for model in (pair.target, pair.draft))
    assert chi_square_p_value(runs, target) > FALSE_ALARM
    assert chi_square_p_value(runs, draft) < FALSE_ALARM


@pytest.mark.parametrize("method", ["gsd", *OTHER_RULES])
def test_no_noise_is_drawn_twice(method, monkeypatch):
    """Neither for two nodes nor for two rounds. Traversal, which may test several nodes of a depth and
    positions that the round does not reach, would lose its exactness."""
    drawn = []
    monkeypatch.setattr(noise, "uniform", lambda *key: drawn.append(key) or uniform(*key))
    monkeypatch.setattr(noise, "races_of", lambda keys, *place: drawn.extend(keys) or races_of(keys, *place))
    specdec.generate(markov_pair(6), [0], method=method, topology=TREE, max_new_tokens=200, seed=1)
    # positions that were not reached are drafted again
    once = [key for key in drawn if isinstance(key, int) or Stream.AGAIN not in key]
    assert len(once) > 300
    assert len(set(once)) == len(once)


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
    runs = texts(pair, "gsd", topology, 2000, temperature=temperature)
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


@pytest.mark.parametrize("rule", DRAFTING)
def test_no_token_without_probability_is_drafted_or_emitted(rule):
    """On a tree with more children than some drafts have tokens. The decisions there are those of
    `tests/rules/test_other_rules.py`."""
    for seed in range(10 * KINDS):
        p, q = random_pair(seed, vocab_size=4, order=0)
        g = specdec.generate(pair_of(p, q), [0], method=rule, topology=WIDE, max_new_tokens=12, seed=seed)
        assert all(q[node.token_id] > 0 for round in g.rounds for node in round.nodes)
        assert all(p[token_id] > 0 for token_id in g.token_ids)
        assert (p != q).any() or {round.tokens[0].kind for round in g.rounds[:-1]} == {"accepted"}
