"""The rules of others as published: exact by themselves, and the fast ones decide what they decide."""

from __future__ import annotations

from fractions import Fraction

import pytest

from specdec import algorithms, other_rules
from specdec.topology import Topology, batch, sequence, simple
from tests.core.test_algorithms import TABLES, Chances, Undecided, completed, rational_table, tau_of
from tests.helpers.laws import distance, enumerate_law

TREE = Topology([(0,), (1,), (0, 0), (1, 0)])
SMALL = [simple(), sequence(2), batch(2), batch(3), TREE]
FULL = Topology([*TREE.paths, (0, 1), (1, 1)])

# ---------------------------------------------------------------- the laws, in rationals


class Draws(Chances):
    """Chance by choice, with independent draws of a race that goes on; equal draws are drawn once each."""

    def independent(self, depth, again, q, n):
        key = "draws", depth, tuple(q), n
        if key not in self.orders:
            options = {token: mass for token, mass in enumerate(q) if mass}
            self.orders[key] = [self.pick(options) for _ in range(n)]
        return self.orders[key]


class ByPath(dict):
    """Noise of every node that is asked for: its path, or an uniform that is not yet decided."""

    def __init__(self, make):
        self.make = make

    def __missing__(self, path):
        self[path] = self.make(path)
        return self[path]


def law_of(rule, tables, topology, monkeypatch):
    """The law of one round's tokens after (0,), over all drafts, tests and samples, in rationals."""
    P, Q = tables
    most = max(map(len, topology.children))
    depths = range(topology.depth + 1)

    def run(choose):
        chances = Draws(choose, most)
        monkeypatch.setattr(algorithms, "arrivals", chances.arrivals)
        monkeypatch.setattr(other_rules, "independent", chances.independent)
        noise, last = ByPath(lambda _: Undecided(chances)), Undecided(chances)
        if rule == "traversal":
            races = ByPath(lambda path: path)
            y = other_rules.traversal((0,), Q, P, tau_of(topology), races, noise, last)
        elif rule == "block":
            y = other_rules.block((0,), Q, P, topology.depth, ByPath(lambda path: path), noise, last)
        else:
            U = [[Undecided(chances) for _ in range(most)] for _ in depths]
            u = [Undecided(chances) for _ in depths]
            decode = getattr(other_rules, rule)
            y = decode((0,), Q, P, tau_of(topology), depths, depths, U, u)
        return y, chances.weight

    return enumerate_law(run)


CASES = [
    *(("block", sequence(k)) for k in (1, 2)),
    *((rule, shape) for rule in ("traversal", "specinfer", "spectr") for shape in SMALL),
    ("traversal", FULL),
]


@pytest.mark.parametrize("tables", TABLES)
@pytest.mark.parametrize(("rule", "topology"), CASES, ids=str)
def test_a_rule_has_the_targets_law_exactly(rule, topology, tables, monkeypatch):
    law = law_of(rule, TABLES[tables], topology, monkeypatch)
    P, _ = TABLES[tables]
    assert sum(law.values()) == 1
    assert completed(law, P, topology.depth + 1) == completed({(): Fraction(1)}, P, topology.depth + 1)


@pytest.mark.parametrize("tables", TABLES)
@pytest.mark.parametrize("k", [1, 2])
def test_traversal_of_a_sequence_is_block_verification(k, tables, monkeypatch):
    """The law of how many tokens come, and which: not only that of the text."""
    law, block = (law_of(rule, TABLES[tables], sequence(k), monkeypatch) for rule in ("traversal", "block"))
    assert law == block


@pytest.mark.parametrize(("rule", "broken"), [("traversal", "without"), ("specinfer", "residual")])
def test_enumeration_catches_a_rule_without_one_of_its_parts(rule, broken, monkeypatch):
    P, Q = (rational_table([row] * 3) for row in ([1, 5, 4], [6, 3, 1]))
    monkeypatch.setattr(other_rules, broken, lambda P, _: P)
    law = law_of(rule, (P, Q), batch(2), monkeypatch)
    assert distance(completed(law, P, 2), completed({(): Fraction(1)}, P, 2)) > 1e-3


def test_enumeration_catches_k_seq_below_its_threshold(monkeypatch):
    P, Q = (rational_table([row] * 3) for row in ([1, 5, 4], [6, 3, 1]))
    monkeypatch.setattr(other_rules, "threshold", lambda P, Q, n: Fraction(1))
    law = law_of("spectr", (P, Q), batch(2), monkeypatch)
    assert distance(completed(law, P, 2), completed({(): Fraction(1)}, P, 2)) > 1e-3


def test_enumeration_catches_traversal_with_one_race_for_a_depth(monkeypatch):
    """Its nodes of one depth decide with each other's drafts: they must race on noise of their own."""
    P, Q = TABLES["full"][0], rational_table([[1, 2, 4]] * 3)

    def run(choose):
        chances = Draws(choose, 2)
        monkeypatch.setattr(algorithms, "arrivals", chances.arrivals)
        noise = {path: Undecided(chances) for path in TREE.paths}
        races = {path: len(path) for path in [(), *TREE.paths]}
        y = other_rules.traversal((0,), Q, P, tau_of(TREE), races, noise, Undecided(chances))
        return y, chances.weight

    law = enumerate_law(run)
    assert distance(completed(law, P, 3), completed({(): Fraction(1)}, P, 3)) > 1e-3
