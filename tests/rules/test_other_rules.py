"""GSD and the rules of other papers as tables: they are exact, and the fast ones make the same decisions."""

import math
from fractions import Fraction
from inspect import signature

import numpy as np
import pytest
import torch

from specdec import algorithms
from specdec.methods import METHODS, Drafted
from specdec.methods.spectr import k_seq_threshold
from specdec.race import RoundNoise
from specdec.topology import Topology, batch, sequence, simple, specinfer
from tests.core.test_algorithms import TABLES, WIDE, Undecided, completed, random_pair, rational_table, tau_of
from tests.helpers import other_rules
from tests.helpers.distributions import OTHER_RULES, TREE, distance, enumerate_distribution

SMALL = [simple(), sequence(2), batch(2), batch(3), TREE]
FULL = Topology([*TREE.paths, (0, 1), (1, 1)])

# ---------------------------------------------------------------- the distributions, in rationals


class Draws:
    """Randomness as explicit choices: each random result is chosen, and its probability is multiplied into
    the weight. Results of the same race are chosen only once."""

    def __init__(self, choose, most):
        self.choose, self.most, self.weight, self.orders = choose, most, Fraction(1), {}

    def pick(self, options):
        """Choose one key of {outcome: probability}."""
        options = {outcome: mass for outcome, mass in options.items() if mass}
        outcome = list(options)[self.choose(len(options))]
        self.weight *= options[outcome]
        return outcome

    def arrivals(self, depth, q):
        """The first tokens of a race under q: samples without replacement. `depth` stands for its noise."""
        key = depth, tuple(q)
        if key not in self.orders:
            order, masses = [], {token: mass for token, mass in enumerate(q) if mass}
            while masses and len(order) < self.most:
                total = sum(masses.values())
                order.append(self.pick({token: mass / total for token, mass in masses.items()}))
                del masses[order[-1]]
            self.orders[key] = order
        return self.orders[key]

    def independent(self, depth, again, q, n):
        """The first n independent draws of a race whose tokens go on arriving."""
        draws = self.orders.setdefault(("draws", depth, tuple(q)), [])
        while len(draws) < n:
            draws.append(self.pick(dict(enumerate(q))))
        return draws[:n]


class ByPath(dict):
    """Noise of every requested node: its path, or a uniform number that is not yet decided."""

    def __init__(self, make):
        self.make = make

    def __missing__(self, path):
        self[path] = self.make(path)
        return self[path]


def plain_form(rule):
    return getattr(algorithms if rule == "gsd" else other_rules, rule)


def distribution_of(rule, tables, topology, monkeypatch, choice=None):
    """The distribution of one round's tokens after (0,), over all drafts, tests and samples, in rationals.

    choice: a function of the tokens drafted on the topology that returns the paths of the tree to verify.
    """
    P, Q = tables
    most = max(map(len, topology.children))
    depths = range(topology.depth + 1)

    def run(choose):
        chances, tau = Draws(choose, most), tau_of(topology)
        monkeypatch.setattr(algorithms, "arrivals", chances.arrivals)
        monkeypatch.setattr(other_rules, "independent", chances.independent)
        # traversal may verify many nodes of a depth, so each has its own race; other rules verify one of them
        races = ByPath(lambda path: path) if rule in ("traversal", "block") else depths
        if choice is not None and METHODS[rule].independent:
            draws = chances.independent(0, None, algorithms.given(Q, (0,)), most)
            tau = {(), *choice({(i,): token for i, token in enumerate(draws)})}
        elif choice is not None:
            tau = {(), *choice(algorithms.draft((0,), Q, tau, races))}
        noise, last = ByPath(lambda _: Undecided(chances)), Undecided(chances)
        if rule == "traversal":
            y = other_rules.traversal((0,), Q, P, tau, races, noise, last)
        elif rule == "block":
            y = other_rules.block((0,), Q, P, topology.depth, races, noise, last)
        else:
            U = [[Undecided(chances) for _ in range(most)] for _ in depths]
            u = [Undecided(chances) for _ in depths]
            both = (races,) if rule == "gsd" else (races, races)
            y = plain_form(rule)((0,), Q, P, tau, *both, U, u)
        return y, chances.weight

    return enumerate_distribution(run)


CASES = [
    *(("block", sequence(k)) for k in (1, 2)),
    *((rule, shape) for rule in ("gsd", *OTHER_RULES) for shape in SMALL),
    ("traversal", FULL),
]


@pytest.mark.parametrize("tables", TABLES)
@pytest.mark.parametrize(("rule", "topology"), CASES, ids=str)
def test_a_rule_has_the_targets_distribution_exactly(rule, topology, tables, monkeypatch):
    """Algorithm 1 is Algorithm 4 with one drafted token. `test_algorithms` compares the decisions of both."""
    distribution = distribution_of(rule, TABLES[tables], topology, monkeypatch)
    P, _ = TABLES[tables]
    assert sum(distribution.values()) == 1
    length = topology.depth + 1
    assert completed(distribution, P, length) == completed({(): Fraction(1)}, P, length)


@pytest.mark.parametrize("tables", TABLES)
@pytest.mark.parametrize("k", [1, 2])
def test_traversal_of_a_sequence_is_block_verification(k, tables, monkeypatch):
    distribution, block = (
        distribution_of(rule, TABLES[tables], sequence(k), monkeypatch) for rule in ("traversal", "block")
    )
    assert distribution == block


BROKEN = {"residual": lambda P, _: P, "without": lambda Q, _: Q, "threshold": lambda P, Q, n: Fraction(1)}


@pytest.mark.parametrize(
    ("rule", "part"),
    [
        *(("gsd", part) for part in ("residual", "without")),
        ("traversal", "without"),
        ("specinfer", "residual"),
        ("spectr", "threshold"),
    ],
)
def test_enumeration_catches_a_rule_without_one_of_its_parts(rule, part, monkeypatch):
    P, Q = (rational_table([row] * 3) for row in ([1, 5, 4], [6, 3, 1]))
    monkeypatch.setattr(algorithms if rule == "gsd" else other_rules, part, BROKEN[part])
    distribution = distribution_of(rule, (P, Q), batch(2), monkeypatch)
    assert distance(completed(distribution, P, 2), completed({(): Fraction(1)}, P, 2)) > 1e-3


# ---------------------------------------------------------------- the fast ones, on the same randomness

TOPOLOGIES = [*SMALL, FULL, sequence(4), WIDE, specinfer(8), batch(7)]


def drafted(Q, topology, e):
    """The topology as far as Q has support, and its tokens by row after (0,), drafted as the paper says."""
    x_draft = algorithms.draft((0,), Q, tau_of(topology), e)
    topology = Topology(x_draft)
    return topology, [0, *(x_draft[path] for path in topology.paths)]


def log_rows(P, topology, token_ids):
    """log P after each row, [1 + k, |Ω|]."""
    lines = [tuple(token_ids[row] for row in topology.ancestors(row)) for row in range(len(token_ids))]
    return torch.from_numpy(np.array([algorithms.given(P, line) for line in lines])).log()


class ByDepth:
    """Noise by depth: e[depth, Ω], U[depth, children] for tests, u[depth] for last tokens."""

    def __init__(self, rng, topology):
        depths, most = topology.depth + 1, max(map(len, topology.children))
        self.e, self.again = rng.exponential(size=(depths, 7)), rng.exponential(size=(depths, most))
        self.U, self.u = rng.random((depths, most)), rng.random(depths)

    def test(self, node, child_index):
        return self.U[len(node)][child_index]

    def last(self, node):
        return self.u[len(node)]


class ByNode(ByDepth):
    """Noise by node, by its path: e and U; one u for the last token."""

    def __init__(self, rng, topology):
        self.e = {path: rng.exponential(size=7) for path in [(), *topology.paths]}
        self.U, self.u = {path: rng.random() for path in topology.paths}, rng.random()

    def test(self, node, child_index):
        return self.U[*node, child_index]

    def last(self, node):
        return self.u


@pytest.mark.parametrize("topology", TOPOLOGIES, ids=str)
@pytest.mark.parametrize("rule", ["gsd", *OTHER_RULES])
def test_a_rule_decides_on_the_same_noise_what_its_plain_form_decides(rule, topology):
    plain, entry, merged = plain_form(rule), METHODS[rule], 0
    for seed in range(120):
        P, Q = random_pair(seed, vocab_size=7)
        kind = ByNode if entry.noise is RoundNoise else ByDepth
        noise = kind(np.random.default_rng(seed), topology)
        if entry.independent:
            tree, token_ids, draws = independently(Q, topology, noise.e, noise.again)
            merged += len(tree.paths) < len(topology.paths)
        else:
            (tree, token_ids), draws = drafted(Q, topology, noise.e), ()
        log_p, log_q = (log_rows(table, tree, token_ids) for table in (P, Q))
        verdict = entry.verify(Drafted(tree, token_ids, log_q, draws), log_p, noise)
        parts = {name: getattr(noise, name) for name in signature(plain).parameters if hasattr(noise, name)}
        emitted = (*(token_ids[row] for row in verdict.rows), verdict.token_id)
        assert emitted == plain((0,), Q, P, tau_of(topology), **parts)
    assert (merged > 20) == (entry.independent and topology.num_draft_tokens > topology.depth)


def independently(Q, topology, e, again):
    """Independent draws after (0,): the drafted part of the topology, its tokens by row, its draws by row."""
    tokens, draws = {}, {}
    for path in [(), *topology.paths]:
        if path and path not in tokens:
            continue
        line = (0, *(tokens[path[:depth]] for depth in range(1, len(path) + 1)))
        n = sum(other[:-1] == path for other in topology.paths)
        sample = other_rules.independent(e[len(path)], again[len(path)], algorithms.given(Q, line), n)
        places = {token: (*path, i) for i, token in enumerate(dict.fromkeys(sample))}
        tokens.update((place, token) for token, place in places.items())
        draws[path] = [places[token] for token in sample]
    tree = Topology(tokens)
    rows = {path: row for row, path in enumerate([(), *tree.paths])}
    token_ids = [0, *(tokens[path] for path in tree.paths)]
    return tree, token_ids, [[rows[d] for d in draws[path]] for path in rows]


@pytest.mark.parametrize("n", [1, 2, 3, 8, 100])
def test_the_threshold_accepts_as_much_as_the_root_and_is_never_below_it(n):
    for seed in range(40):
        p, q = (table[0] for table in random_pair(seed, vocab_size=9))
        rho = k_seq_threshold([p], [q], n)
        beta, best = (
            min(float(np.minimum(q, p / r).sum()), 1 - 1e-16) for r in (rho, other_rules.threshold(p, q, n))
        )
        accepted, most = (-math.expm1(n * math.log1p(-x)) for x in (beta, best))
        assert accepted == pytest.approx(most, abs=1e-11)
        assert accepted <= rho * beta * (1 + 1e-14)


@pytest.mark.parametrize(
    ("p", "q", "rho"), [((1, 0), (1, 0), 1), ((1, 0), (0, 1), 1), ((0.5, 0.5), (1, 0), None)]
)
def test_the_threshold_of_laws_that_are_one_token(p, q, rho):
    p, q = (np.array(distribution, dtype=np.float64) for distribution in (p, q))
    threshold = k_seq_threshold([p], [q], 3)
    assert threshold == pytest.approx(rho or other_rules.threshold(p, q, 3))
