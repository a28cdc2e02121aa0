"""Who may choose the tree (docs/tree_choice.md): by enumeration, and at every place that chooses."""

import itertools
from collections import Counter, deque
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

import specdec
from research.theory.tree_choice import offered_distribution
from specdec import algorithms
from specdec.decoding import auto
from specdec.decoding.costs import RoundCost, RoundTimes
from specdec.decoding.engine import Engine
from specdec.decoding.trees import Trees
from specdec.drafters.stopping import Price
from specdec.exactness.losslessness import joint_distribution
from specdec.probs import Sampling
from specdec.settings import RunSettings
from specdec.topology import Topology, batch, sequence
from tests.core.test_algorithms import TABLES, completed
from tests.core.test_joint_trees import FREE, NOTHING
from tests.helpers.distributions import (
    FALSE_ALARM,
    TREE,
    chi_square_p_value,
    distance,
    markov_pair,
)
from tests.rules.test_other_rules import distribution_of

SHAPES = [
    tuple(paths)
    for k in range(5)
    for paths in itertools.combinations(TREE.paths, k)
    if all(path[:-1] in ((), *paths) and (path[-1] == 0 or (0,) in paths) for path in paths)
]
"""All trees within `TREE`."""

# ---------------------------------------------------------------- in rationals


@pytest.mark.parametrize("tables", TABLES)
def test_ersd_s_text_is_that_of_every_tree(tables):
    """Every race with every tree. So a tree that was chosen after seeing all races changes nothing."""
    P, Q = TABLES[tables]
    for races in itertools.product(itertools.permutations([Fraction(3, 10), 1, Fraction(5, 2)]), repeat=3):
        plain = (0,)
        for e in races:
            plain = (*plain, algorithms.arrivals(e, algorithms.given(P, plain))[0])
        texts = {algorithms.ersd((0,), Q, P, {(), *paths}, races) for paths in SHAPES}
        assert texts <= {plain[1 : n + 1] for n in (1, 2, 3)}


CHOICES = {
    "an earlier sibling's draw": lambda drawn: {(0,), *([(1,)] if drawn[0,] == 0 else [])},
    "draws of the level above": lambda drawn: (
        {(0,), (1,)} | ({(0, 0)} if drawn.get((1,)) == 1 else {(1, 0)} if (1,) in drawn else set())
    ),
    "its own draw": lambda drawn: {(0,)} if drawn[0,] != 0 else set(),
    "the draw of its child": lambda drawn: {(0,), *([(0, 0)] if drawn.get((0, 0)) == 0 else [])},
    "how many draws are likely (p_min, n_min)": lambda drawn: (
        {(0,), (0, 0)} if drawn[0,] == 1 and drawn.get((0, 0)) == 1 else set()
    ),
}
"""Trees that depend on draws. The first two look only at draws that come before the offer."""
RIGHT = tuple(CHOICES)[:2]


CASES = [
    *itertools.product(("gsd", "traversal"), CHOICES),
    *itertools.product(["specinfer"], ["an earlier sibling's draw", "its own draw"]),
]


@pytest.mark.parametrize(("rule", "choice"), CASES)
def test_the_distribution_is_kept_where_an_offer_is_decided_before_its_own_draw(rule, choice, monkeypatch):
    """In rationals: right choices keep the distribution exactly, the others are off by more than 1/100."""
    topology = batch(2) if rule == "specinfer" else TREE
    law = distribution_of(rule, TABLES["full"], topology, monkeypatch, CHOICES[choice])
    P, _ = TABLES["full"]
    target = completed({(): Fraction(1)}, P, 3)
    assert sum(law.values()) == 1
    assert (completed(law, P, 3) == target) == (choice in RIGHT)
    assert choice in RIGHT or distance(completed(law, P, 3), target) > Fraction(1, 100)


def test_a_draw_that_is_thrown_away_is_off_by_up_to_a_quarter_where_the_draft_is_the_target(monkeypatch):
    half = [Fraction(1, 2), Fraction(1, 4), Fraction(1, 4)]
    written = offered_distribution(half, half, [1, 0, 0])
    assert sum(written) == 1
    assert sum(abs(a - b) for a, b in zip(written, half, strict=True)) / 2 == Fraction(1, 4)
    p, q = [Fraction(n, 10) for n in (2, 5, 3)], [Fraction(n, 10) for n in (6, 1, 3)]
    assert offered_distribution(p, q, [Fraction(1, 3)] * 3) == p  # the choice is made without the draw
    table = np.array([p] * 3, dtype=object), np.array([q] * 3, dtype=object)
    law = distribution_of("gsd", table, TREE, monkeypatch, CHOICES["its own draw"])
    text_law = completed(law, table[0], 1)
    assert [text_law[token,] for token in range(3)] == offered_distribution(p, q, [0, 1, 1])


# ---------------------------------------------------------------- the places that choose trees


def test_ersd_s_text_stays_where_each_tree_is_chosen_after_looking_at_the_race():
    pair, text = markov_pair(4, seed=3), []
    engine = Engine(pair, RunSettings("ersd", 60, Sampling(), 7, False), Trees(batch(2)), [0], 7)
    for _ in engine.rounds():
        position = len(engine.text_ids)
        if position < 60:
            winner = engine.races.at(position).winner(pair.target.log_table[engine.text_ids[-1]])
            engine.trees.present = (Topology([]), sequence(3), batch(3), TREE)[winner]
        text = engine.text_ids[1:]
    assert text == specdec.generate(pair, [0], method="ar", max_new_tokens=60, seed=7).token_ids


def made(end=(), context=None, of_draft=None):
    """A pair with the ids that end a text, and the context lengths of target and draft."""
    pair = markov_pair()
    pair.eos_ids = frozenset(end)
    pair.target.context_length = context or pair.target.context_length
    pair.drafting.context_length = of_draft or pair.drafting.context_length
    return pair


RUNS = 800


def in_batches(pair, method, **settings):
    for first in range(0, RUNS, 50):
        seeds = range(first, first + 50)
        yield from specdec.generate_many(pair, [[0]] * 50, method=method, seeds=seeds, **settings)


def one_by_one(pair, method, **settings):
    return (specdec.generate(pair, [0], method=method, seed=seed, **settings) for seed in range(RUNS))


def stopping(pair, method, topology, **_):
    """Runs whose draft stops where a level is not worth its price, which happens in some rounds only."""
    trees = Counter()
    for seed in range(RUNS):
        settings = RunSettings(method, 3, Sampling(), seed, False)
        engine = Engine(pair, settings, Trees(topology), [0], seed)
        engine.follow(topology, Price(0.45, 0.0))
        deque(engine.rounds(), maxlen=0)
        trees[engine.trees.so_far[0].drafted] += 1
        yield SimpleNamespace(token_ids=engine.text_ids[1:])
    assert len(trees) == 2
    assert min(trees.values()) > RUNS / 10


PLACES = {
    "auto": ({}, one_by_one, {"topology": "auto", "max_new_tokens": 3}),
    "joint trees": ({}, in_batches, {"topology": "auto", "max_new_tokens": 3}),
    "level of a draft that stops": ({}, stopping, {"topology": TREE}),
    "length of the text": ({}, one_by_one, {"topology": TREE, "max_new_tokens": 2}),
    "token that ends a text": ({"end": [2]}, one_by_one, {"topology": TREE, "max_new_tokens": 4}),
    "end of the context": ({"context": 3}, one_by_one, {"topology": TREE, "max_new_tokens": 4}),
    "end of the draft's context": ({"of_draft": 1}, one_by_one, {"topology": TREE, "max_new_tokens": 3}),
}
"""Pairs, ways to decode, and settings. A draft with a context of one token drafts only after the prompt."""


CHOOSING = [*itertools.product(("auto", "level of a draft that stops"), ("gsd", "traversal", "specinfer"))]
CHOOSING += [("joint trees", "traversal"), ("length of the text", "specinfer")]
CHOOSING += [("token that ends a text", "gsd"), ("end of the context", "traversal")]
CHOOSING += [("end of the draft's context", "gsd")]
"""Every place, and the two that look at the draft most under each kind of rule."""


@pytest.mark.slow
@pytest.mark.parametrize(("place", "method"), CHOOSING)
def test_a_place_that_chooses_trees_keeps_the_distribution(place, method, monkeypatch):
    """A χ² test of the first two tokens of 800 runs. A false alarm has probability 1e-6 for each. ContextTree
    has its test in tests/core/test_context.py."""
    changes, decode, settings = PLACES[place]
    pair = made(**changes)
    monkeypatch.setattr(auto, "_SHARE", 1e9)  # trees are chosen in each round, however fast the machine is
    monkeypatch.setattr(RoundTimes, "costs", lambda *_: RoundCost(FREE, FREE, NOTHING))
    distribution = joint_distribution(pair.target, [0], 2)
    for text in [text for text in distribution if text[0] in pair.eos_ids]:
        distribution[text[:1]] = distribution.get(text[:1], 0) + distribution.pop(text)
    texts = []
    for each in decode(pair, method, **settings):
        texts.append(tuple(each.token_ids[:2]))
        assert len(each.token_ids) <= 2 or place not in ("length of the text", "end of the context")
    assert chi_square_p_value(texts, distribution) > FALSE_ALARM
