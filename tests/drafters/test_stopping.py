"""Laws of a draft that stops: texts stay the same, and a level is drafted where it is worth its price."""

import itertools
from collections import deque
from functools import partial

import pytest
import torch

import specdec
from specdec.decoding.auto import AutoTrees
from specdec.decoding.engine import Engine
from specdec.decoding.trees import Trees
from specdec.drafters.catalogue import COPIES, MODEL, MODEL_AND_COPIES
from specdec.drafters.stopping import Price, Stopping
from specdec.methods import DRAFTING
from specdec.probs import Sampling
from specdec.settings import RunSettings
from specdec.topology import Topology, batch, sequence
from tests.drafters.test_copies import REPEATING, repetitive_pair
from tests.helpers.distributions import markov_pair, pair_of

TREES = {
    "sequence": sequence(6),
    "batch": batch(3),
    "wide": Topology([(0,), (1,), (0, 0), (0, 1), (1, 0), (0, 0, 0), (0, 0, 1), (1, 0, 0)]),
}
PRICES = [Price(level, node) for level, node in ((0.0, 0.0), (0.3, 0.0), (0.2, 0.1), (0.6, 0.1), (9.0, 9.0))]
SAMPLINGS = [{}, {"temperature": 0.4}, {"top_k": 2}, {"top_p": 0.7}]


def decoded(pair, method, topology, price, seed=0, tokens=60, **sampling) -> Engine:
    settings = RunSettings(method, tokens, Sampling(**sampling), seed, False)
    engine = Engine(pair, settings, Trees(topology), [0], seed)
    engine.follow(topology, price)
    deque(engine.rounds(), maxlen=0)
    return engine


def sizes(engine) -> list[int]:
    """Drafted tokens of the trees, without those of the last rounds, which the end of the text cuts."""
    trees = engine.trees.so_far
    return [trees[number].drafted.num_draft_tokens for number in trees if number < engine.number - 7]


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)
def test_ersd_s_text_is_that_of_plain_decoding_wherever_the_draft_stops(sampling):
    pair = markov_pair(5, seed=4)
    plain = specdec.generate(pair, [0], method="ar", max_new_tokens=60, seed=7, **sampling)
    for topology, price in itertools.product(TREES.values(), PRICES):
        assert decoded(pair, "ersd", topology, price, seed=7, **sampling).text_ids[1:] == plain.token_ids


REPEATED = [(method, drafter, PRICES[1]) for method in DRAFTING for drafter in (MODEL, MODEL_AND_COPIES)]
REPEATED += [("gsd", MODEL, None), ("spectr", MODEL_AND_COPIES, None), ("traversal", COPIES, PRICES[1])]


@pytest.mark.parametrize(("method", "drafter", "price"), REPEATED, ids=str)
def test_a_record_repeats_its_text_where_the_draft_stopped(method, drafter, price, monkeypatch):
    """Alone and in a batch. Copied paths replace the draft model in some rounds, in which the decision must
    not depend on the depth at which the model stops."""
    shapes = [sequence(8), TREES["wide"], sequence(8)]

    def trees(_, runs, texts):
        return {run: shapes[run.seed] for run in runs if run.follows}

    monkeypatch.setattr(AutoTrees, "trees", trees)
    monkeypatch.setattr(AutoTrees, "price", lambda *_: price)
    pair, number = repetitive_pair(), 3
    settings = {"method": method, "drafter": drafter, "max_new_tokens": 100}
    many = partial(specdec.generate_many, pair, [REPEATING] * number, seeds=range(number), **settings)
    records = many(topology="auto")
    depths = {tree.depth for record in records[::2] for tree in record.trees}
    assert (len(depths) > 1) == (price is not None and drafter != COPIES)
    assert (0 in depths) == (price is not None and drafter == MODEL_AND_COPIES), "a path replaced the model"
    for record, beside in zip(records, many(topology=records), strict=True):
        alone = specdec.generate(pair, REPEATING, topology=record, seed=record.seed, **settings)
        assert alone.token_ids == beside.token_ids == record.token_ids
        assert alone.trees == beside.trees == record.trees


def test_a_level_without_a_price_is_always_drafted_and_one_beyond_any_gain_never():
    pair = markov_pair(5, seed=4)
    for price, depth in ((None, 6), (Price(0.0, 0.0), 6), (Price(9.0, 0.0), 1), (Price(0.0, 9.0), 1)):
        assert sizes(decoded(pair, "ersd", sequence(6), price)) == [depth]


def sure(target: int) -> specdec.ModelPair:
    return pair_of(torch.eye(3)[target], torch.eye(3)[0])


def test_a_draft_that_is_sure_goes_deep_until_it_errs():
    right, wrong = (decoded(sure(token), "ersd", sequence(6), Price(0.5, 0.0)) for token in (0, 1))
    assert sizes(right) == [6]
    assert sizes(wrong)[0] == 6
    assert sizes(wrong)[-1] == 1


def test_the_draft_s_own_probability_decides_at_temperature_one():
    """Token 1 follows 0 for certain, and all else is uniform, so the draft stops after the tokens that it
    guesses. A low temperature does not make it surer."""
    table = torch.full((4, 4), 0.25)
    table[0] = torch.tensor([0.0, 1.0, 0.0, 0.0])
    pair = pair_of(table, table)
    stopping = decoded(pair, "ersd", sequence(3), Price(0.65, 0.0), temperature=0.5)
    assert set(sizes(stopping)) == {1, 2}


def test_an_error_of_late_children_is_no_error_of_the_first():
    stopping = Stopping()
    stopping.price = Price(0.3, 0.0)
    for _ in range(40):
        stopping.begin()
        stopping.drawn(batch(2), {0: 0.999})
        stopping.learn([2])  # the second child is accepted
    stopping.begin()
    stopping.drawn(TREES["wide"], {0: 0.999})
    assert not stopping.worth(TREES["wide"], [1])
    stopping.begin()
    stopping.drawn(TREES["wide"], {0: 0.97})  # of another kind
    assert stopping.worth(TREES["wide"], [1])


def test_a_level_beside_a_copied_path_counts_only_where_the_path_may_be_wrong():
    stopping, tree = Stopping(), sequence(3)
    stopping.price = Price(0.2, 0.0)  # of tokens without another mark, the share that is assumed is above 0.6
    for copied, starts in (((), True), ((0.5,), True), ((0.9, 0.8, 0.7), False)):
        stopping.begin()
        assert (stopping.starts(tree, copied), stopping.depth) == (starts, None if starts else 0)
    for copied, goes_on in (((), True), ((0.6,), True), ((0.6, 0.6), False)):
        stopping.begin()
        assert stopping.starts(tree, copied)
        stopping.drawn(tree, {0: 0.05})
        assert stopping.worth(tree, [1]) == goes_on
    stopping.price = None
    stopping.begin()
    assert stopping.starts(tree, (0.99,)), "without a price the model always drafts"


def test_a_model_that_rests_beside_copies_drafts_now_and_then():
    stopping, tree, drafted = Stopping(), sequence(3), []
    stopping.price = Price(0.5, 0.0)
    for number in range(60):
        stopping.begin()
        if stopping.starts(tree, (0.7, 0.6, 0.5)):
            drafted.append(number)
    assert drafted == [6, 19, 36, 53]
    for _ in range(20):
        stopping.begin()
        assert not stopping.starts(tree, (0.99, 0.98, 0.97)), "the path is almost certainly right"


def test_a_recorded_rest_ends_where_there_is_no_path():
    stopping, tree = Stopping(), sequence(3)
    stopping.recorded = 0
    for copied, depth in (((0.5,), 0), ((), None)):
        stopping.begin()
        assert (stopping.starts(tree, copied), stopping.depth) == (depth is None, depth)


def test_a_round_of_copies_alone_says_nothing_about_the_draft():
    """Both models repeat three tokens, so that copies soon replace the draft's trees."""
    table = torch.eye(3).roll(1, 1)
    pair = pair_of(table, table)
    settings = RunSettings("ersd", 80, seed=0, drafter="model+copies")
    engine = Engine(pair, settings, Trees(sequence(4)), [0], 0)
    engine.follow(sequence(4), Price(0.1, 0.0))
    copied, before = 0, []
    for round in engine.rounds():
        if round.nodes and all(node.copied for node in round.nodes):
            copied += 1
            assert engine.stopping._classes == before
        before = [[*counts] for counts in engine.stopping._classes]
    assert copied > 1
