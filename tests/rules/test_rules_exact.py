"""The rules of other papers on whole decodes: the text has the target's distribution, by enumeration and by
χ²."""

import numpy as np
import pytest

import specdec
from specdec.exactness.faults import FAULTS
from specdec.exactness.losslessness import Check, joint_distribution
from specdec.methods import METHODS, Drafted, Residual
from specdec.methods.residual import parts_of
from specdec.models import MarkovModel
from specdec.race import keys, noise
from specdec.topology import Topology, batch, sequence, simple
from tests.helpers.distributions import (
    FALSE_ALARM,
    OTHER_RULES,
    TREE,
    adversarial_pair,
    chi_square_p_value,
    distance,
    enumerate_distribution,
    first_tokens,
    markov_pair,
    pair_of,
)
from tests.rules.test_other_rules import ByPath

# ---------------------------------------------------------------- by enumeration, over several rounds


class DraftByChoice:
    """A drafted tree whose tokens are chosen, in order, when verification reads them.

    Children of a node are drawn from q without replacement. Only the nodes on the verified path matter: nodes
    of one depth share a race, but which node of a depth is verified was decided before that race.
    """

    def __init__(self, pair, topology, prefix, choose):
        self.pair, self.topology, self.prefix, self.choose = pair, topology, prefix, choose
        self.tokens, self.weight = {0: prefix[-1]}, 1.0

    def __getitem__(self, row):
        if row not in self.tokens:
            self.tokens[row] = self._draw(row)
        return self.tokens[row]

    def _draw(self, row):
        siblings = self.topology.children[self.topology.parents[row]]
        siblings_tokens = [self[sibling] for sibling in siblings[: self.topology.child_indices[row]]]
        q = self.rows(self.pair.draft)[self.topology.parents[row]].exp()
        untaken = [token for token in range(len(q)) if token not in siblings_tokens]
        token = untaken[self.choose(len(untaken))]
        self.weight *= float(q[token]) / (1 - sum(float(q[t]) for t in siblings_tokens))
        return token

    def rows(self, model):
        """log p or log q by row of the tree."""

        def row_of(row):
            line = [self[ancestor] for ancestor in self.topology.ancestors(row)[1:]]
            return model.log_table[[*self.prefix, *line][-1]]

        return ByRow(row_of)

    def drafted(self):
        return Drafted(self.topology, self, self.rows(self.pair.draft))


class DrawsByChoice(DraftByChoice):
    """A tree of independent draws, which are chosen when verification reads them. Equal draws share a row."""

    def drafted(self):
        return super().drafted()._replace(draws=ByRow(self._drawn))

    def _drawn(self, row):
        q, children, placed = self.rows(self.pair.draft)[row].exp(), self.topology.children[row], {}
        tokens = [self.choose(len(q)) for _ in children]
        for token in tokens:
            self.weight *= float(q[token])
            placed.setdefault(token, children[len(placed)])
        self.tokens.update((child, token) for token, child in placed.items())
        return [placed[token] for token in tokens]


class ByRow(ByPath):
    """A value for each row, made when it is first needed."""

    def __bool__(self):
        return True


class NoiseByChoice:
    """Uniforms just above 0 or just below 1."""

    def __init__(self, choose):
        self.choose = choose

    def test(self, node, child_index):
        return (1e-300, 1 - 2**-53)[self.choose(2)]

    def last(self, node):
        return 0.5  # the samples are enumerated elsewhere


def distribution_by_choice(method, pair, topology, length, monkeypatch, verify=None):
    """The distribution of the next tokens over all drafts, tests and samples, for as many rounds as the
    tokens need.

    verify: a broken verifier that replaces the method's own.
    """
    verify = verify or METHODS[method].verify
    kind = DrawsByChoice if METHODS[method].independent else DraftByChoice

    def run(choose):
        tokens, weight = [], 1.0

        def sample(self, u):
            nonlocal weight
            weights = np.concatenate(self.weights or parts_of(self.log_p))
            token_id = choose(len(weights))
            weight *= float(weights[token_id] / weights.sum())
            return token_id

        monkeypatch.setattr(Residual, "sample", sample)
        while len(tokens) < length:
            draft = kind(pair, topology, [0, *tokens], choose)
            verdict = verify(draft.drafted(), draft.rows(pair.target), NoiseByChoice(choose))
            weight *= draft.weight
            for attempt in verdict.attempts:
                ratio = attempt.p / attempt.q if attempt.ratio is None else attempt.ratio
                accepts, low = min(1.0, ratio), attempt.u < 0.5
                # a uniform near 1 that is still accepted has no probability of its own
                weight *= accepts if low else 0.0 if attempt.accepted else 1 - accepts
                assert attempt.accepted or not low or accepts == 0
            tokens += [draft[row] for row in verdict.rows] + [verdict.token_id]
        return tuple(tokens[:length]), weight

    return enumerate_distribution(run)


CASES = [("gsd", batch(3)), ("traversal", simple()), ("specinfer", batch(2)), ("spectr", sequence(2))]
CASES += [(rule, TREE) for rule in ("gsd", *OTHER_RULES)]


@pytest.mark.slow
@pytest.mark.parametrize(("rule", "topology"), CASES, ids=str)
def test_a_rule_has_the_targets_joint_distribution_by_enumeration(rule, topology, monkeypatch):
    """Two tokens, or three if one is drafted: up to three rounds."""
    pair, length = markov_pair(3, seed=1), 3 if topology == simple() else 2
    law = distribution_by_choice(rule, pair, topology, length, monkeypatch)
    assert distance(law, joint_distribution(pair.target, [0], length)) < 1e-12


@pytest.mark.parametrize("fault", ["kept-target", "kept-draft", "no-threshold"])
def test_enumeration_catches_a_verifier_without_one_of_its_parts(fault, monkeypatch):
    pair, (rule, verifier) = markov_pair(3, seed=1), (FAULTS[fault].method, FAULTS[fault].verifier)
    law = distribution_by_choice(rule, pair, batch(2), 2, monkeypatch, verifier)
    assert distance(law, joint_distribution(pair.target, [0], 2)) > 1e-3


# ---------------------------------------------------------------- whole decodes, by χ²


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
