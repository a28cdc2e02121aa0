"""The rules of others on whole decodes: the law of the text is the target's own, by enumeration and by χ²."""

from __future__ import annotations

import pytest
import torch

import specdec
from specdec.decoding import engine
from specdec.exactness.faults import FAULTS
from specdec.exactness.losslessness import Check, joint_law
from specdec.methods import spectr, traversal, verify_specinfer, verify_spectr, verify_traversal
from specdec.methods.gsd import parts_of
from specdec.methods.specinfer import SPECINFER
from specdec.models import MarkovModel
from specdec.race import nodes, races, sparse
from specdec.topology import Topology, batch, sequence, simple
from tests.core.test_exactness import DraftByChoice, adversarial_pair, first_tokens
from tests.helpers.laws import FALSE_ALARM, chi_square_p_value, distance, enumerate_law, markov_pair

RULES = ("traversal", "specinfer", "spectr")
TREE = Topology([(0,), (1,), (0, 0), (1, 0)])
TOPOLOGIES = [simple(), sequence(2), batch(2), TREE]

# ---------------------------------------------------------------- by enumeration, over several rounds


class DrawsByChoice(DraftByChoice):
    """A drafted tree of independent draws, chosen when verification looks at them; equal ones are one row."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.draws = ByRow(self._drawn)

    def _drawn(self, row):
        q, children, placed = self.rows(self.pair.draft)[row].exp(), self.topology.children[row], {}
        drawn = [self.choose(len(q)) for _ in children]
        for token in drawn:
            self.weight *= float(q[token])
            placed.setdefault(token, children[len(placed)])
        self.tokens.update((child, token) for token, child in placed.items())
        return [placed[token] for token in drawn]


class ByRow(dict):
    def __init__(self, make):
        self.make = make

    def __missing__(self, row):
        self[row] = self.make(row)
        return self[row]


class Sampled:
    """Stands for what samples the last token: chooses one, and keeps its probability."""

    def __init__(self, choose):
        self.choose, self.probability = choose, None

    def __call__(self, weights, sums, _):
        probabilities = (torch.cat([*weights]) / sums[-1]).tolist()
        token_id = self.choose(len(probabilities))
        self.probability = probabilities[token_id]
        return token_id

    def emitted(self, left, log_p, u):
        weights = left.weights or parts_of(log_p)
        return self(weights, [sum(float(part.sum()) for part in weights)], u)


def verdict_by_choice(rule, drafted, sampled, monkeypatch):
    """What a rule decides on uniforms that are chosen: next to 0, or next to 1."""
    log_p, log_q = (drafted.rows(model) for model in (drafted.pair.target, drafted.pair.draft))

    def uniform(*_):
        return (1e-300, 1 - 2**-53)[drafted.choose(2)]

    def last(_):
        return 0.5  # nobody looks at it

    if rule == "traversal":
        monkeypatch.setattr(traversal, "emitted", sampled.emitted)
        return verify_traversal(drafted.topology, drafted, log_p, log_q, uniform, last)
    tree = drafted.topology, drafted, drafted.draws, log_p, log_q
    if rule == "spectr":
        monkeypatch.setattr(spectr, "emitted", sampled.emitted)
        return verify_spectr(*tree, uniform, last)
    return verify_specinfer(*tree, uniform, last, SPECINFER._replace(sample=sampled))


def law_by_choice(rule, pair, topology, length, monkeypatch):
    """The law of the next tokens over all drafts, tests and samples of as many rounds as they take."""
    kind = DraftByChoice if rule == "traversal" else DrawsByChoice

    def run(choose):
        tokens, weight = [], 1.0
        while len(tokens) < length:
            drafted, sampled = kind(pair, topology, [0, *tokens], choose), Sampled(choose)
            verdict = verdict_by_choice(rule, drafted, sampled, monkeypatch)
            weight *= drafted.weight * sampled.probability
            for attempt in verdict.attempts:
                ratio = attempt.p / attempt.q if attempt.ratio is None else attempt.ratio
                accepts, low = min(1.0, ratio), attempt.u < 0.5
                # a uniform next to 1 that is still accepted has no mass of its own
                weight *= accepts if low else 0.0 if attempt.accepted else 1 - accepts
            tokens += [drafted[row] for row in verdict.rows] + [verdict.token_id]
        return tuple(tokens[:length]), weight

    return enumerate_law(run)


@pytest.mark.slow
@pytest.mark.parametrize("topology", TOPOLOGIES, ids=str)
@pytest.mark.parametrize("rule", RULES)
def test_a_rule_has_the_targets_joint_law_by_enumeration(rule, topology, monkeypatch):
    """Two tokens, three where one is drafted: up to three rounds."""
    pair, length = markov_pair(3, seed=1), 3 if topology == simple() else 2
    law = law_by_choice(rule, pair, topology, length, monkeypatch)
    assert distance(law, joint_law(pair.target, [0], length)) < 1e-12


def test_enumeration_catches_k_seq_without_its_threshold(monkeypatch):
    pair = markov_pair(3, seed=1)
    monkeypatch.setattr(spectr, "k_seq_threshold", lambda p, q, n: 1.0)
    law = law_by_choice("spectr", pair, batch(2), 2, monkeypatch)
    assert distance(law, joint_law(pair.target, [0], 2)) > 1e-3


# ---------------------------------------------------------------- whole decodes, by χ²


@pytest.mark.slow
@pytest.mark.parametrize("topology", [simple(), sequence(2), batch(4), TREE], ids=str)
@pytest.mark.parametrize("rule", RULES)
def test_a_rule_end_to_end_has_the_targets_law(rule, topology):
    """χ² over the first two tokens, 16 tokens, q ∝ 1/p; false alarm 1e-6 a topology."""
    pair = adversarial_pair()
    runs = [first_tokens(pair, rule, topology, seed) for seed in range(3000)]
    assert chi_square_p_value(runs, joint_law(pair.target, [0], 2)) > FALSE_ALARM


def checked(rule, topology, fault=None, decodes=3000, pair=None):
    """The p-value of the first two tokens of so many decodes, by default of a pair of three tokens."""
    pair = pair or markov_pair(3, seed=1)
    check = Check(pair, [0], method=rule, topology=topology, length=2, seed=0, fault=FAULTS.get(fault))
    for _ in range(decodes):
        check.decode()
    return check.chi_square().p_value


@pytest.mark.slow
@pytest.mark.parametrize("fault", [name for name, fault in FAULTS.items() if fault.method in RULES])
def test_chi_square_catches_each_fault(fault):
    """First two tokens; false alarm 1e-6. Without the fault the same check passes."""
    rule = FAULTS[fault].method
    assert checked(rule, TREE, fault=fault, decodes=6000) < FALSE_ALARM
    assert checked(rule, TREE) > FALSE_ALARM


def by_position(seed, position, path):
    """Noise of a node by the position that it stands at, in whichever round."""
    return races.key_of(seed, races.Stream.ROUND, position + len(path)) + sum(path)


def by_depth(seed, position, path, of_node=nodes.node_seed):
    """Noise of a round's node by its depth, shared by all nodes that have it."""
    return of_node(seed, position, (0,) * len(path))


@pytest.mark.slow
@pytest.mark.parametrize(("shared", "topology"), [(by_position, sequence(2)), (by_depth, TREE)])
def test_traversal_must_not_see_noise_twice(shared, topology, monkeypatch):
    """χ², false alarm 1e-6: noise of a position that is kept for the next round, or of a depth that several
    nodes decide with, shows. Noise of its own for each node of each round does not."""
    p, q = torch.tensor([[0.5, 0.5], [0.9, 0.1]], dtype=torch.float64)
    pair = specdec.ModelPair(MarkovModel(p.expand(2, 2)), MarkovModel(q.expand(2, 2)))
    assert checked("traversal", topology, decodes=4000, pair=pair) > FALSE_ALARM
    for module in (engine, nodes):
        monkeypatch.setattr(module, "node_seed", shared)
    assert checked("traversal", topology, decodes=4000, pair=pair) < FALSE_ALARM


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_never_decides_twice_with_the_same_noise(rule, monkeypatch):
    drawn, real = [], engine.uniform
    monkeypatch.setattr(engine, "uniform", lambda *key: drawn.append(key) or real(*key))
    specdec.generate(markov_pair(6), [0], method=rule, topology=TREE, max_new_tokens=200, seed=1)
    assert len(drawn) > 100
    assert len(set(drawn)) == len(drawn)


# ---------------------------------------------------------------- the ends of what laws can be


@pytest.mark.parametrize("topology", [sequence(3), batch(4), TREE], ids=str)
@pytest.mark.parametrize("rule", RULES)
def test_decoding_on_sparse_races_gives_the_same_text(rule, topology, monkeypatch):
    """Sparse races of large vocabularies, on one of sixteen tokens of which about two are early."""
    pair, settings = adversarial_pair(), {"method": rule, "topology": topology, "max_new_tokens": 200}
    whole = [specdec.generate(pair, [0], seed=seed, **settings) for seed in range(5)]
    for module in (races, nodes):
        monkeypatch.setattr(module, "LARGE", 0)
    monkeypatch.setattr(sparse, "EARLY", 2)
    found = [specdec.generate(pair, [0], seed=seed, **settings) for seed in range(5)]
    assert [run.token_ids for run in found] == [run.token_ids for run in whole]


@pytest.mark.parametrize("sampling", [{"temperature": 0}, {"top_k": 1}, {"top_p": 1e-6}], ids=str)
@pytest.mark.parametrize("topology", [*TOPOLOGIES, batch(5)], ids=str)
@pytest.mark.parametrize("rule", RULES)
def test_where_one_token_is_left_the_text_is_the_greedy_one(rule, topology, sampling):
    pair = markov_pair(6, seed=4)
    g = specdec.generate(
        pair, [0], method=rule, topology=topology, max_new_tokens=30, seed=9, detail=True, **sampling
    )
    text = [0]
    for _ in range(30):
        text.append(int(pair.target.log_table[text[-1]].argmax()))
    assert g.token_ids == text[1:]


LAWS = {
    "the same": ([0.5, 0.3, 0.2, 0.0], [0.5, 0.3, 0.2, 0.0]),
    "disjoint": ([0.7, 0.3, 0.0, 0.0], [0.0, 0.0, 0.4, 0.6]),
    "a draft of half the tokens": ([0.25, 0.25, 0.25, 0.25], [0.6, 0.4, 0.0, 0.0]),
    "a target of half the tokens": ([0.6, 0.4, 0.0, 0.0], [0.25, 0.25, 0.25, 0.25]),
    "a sure draft": ([0.1, 0.2, 0.3, 0.4], [1.0, 0.0, 0.0, 0.0]),
}


@pytest.mark.slow
@pytest.mark.parametrize("laws", LAWS)
@pytest.mark.parametrize("rule", RULES)
def test_laws_without_support_or_residual(rule, laws):
    """χ² over two tokens on a tree with more children than the draft has tokens; false alarm 1e-6 each."""
    p, q = (torch.tensor(law, dtype=torch.float64) for law in LAWS[laws])
    pair = specdec.ModelPair(MarkovModel(p.expand(4, 4)), MarkovModel(q.expand(4, 4)))
    tree = Topology([(0,), (1,), (2,), (0, 0), (0, 1), (1, 0)])
    runs = [
        specdec.generate(pair, [0], method=rule, topology=tree, max_new_tokens=4, seed=s) for s in range(1500)
    ]
    assert all(q[node.token_id] > 0 for run in runs for round in run.rounds for node in round.nodes)
    tokens = [tuple(run.token_ids[:2]) for run in runs]
    assert chi_square_p_value(tokens, joint_law(pair.target, [0], 2)) > FALSE_ALARM
    if laws == "the same":
        assert all(run.rounds[0].tokens[0].kind == "accepted" for run in runs)


@pytest.mark.slow
@pytest.mark.parametrize("topology", [None, TREE], ids=["default", "tree"])
@pytest.mark.parametrize("rule", RULES)
def test_a_rule_keeps_a_nucleus_of_the_target(rule, topology):
    """top_p = 0.9 for both; χ² over two tokens, false alarm 1e-6."""
    pair = adversarial_pair()
    sampling = {"top_p": 0.9, "max_new_tokens": 6}
    runs = [
        tuple(specdec.generate(pair, [0], method=rule, topology=topology, seed=s, **sampling).token_ids[:2])
        for s in range(1200)
    ]
    table = specdec.probs.log_probs(pair.target.log_table, specdec.probs.Sampling(top_p=0.9)).exp()
    law = joint_law(MarkovModel(table), [0], 2)
    assert chi_square_p_value(runs, law) > FALSE_ALARM
