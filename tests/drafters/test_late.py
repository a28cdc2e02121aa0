"""Tokens that the host reads late, as on a GPU, are those that it reads at once. Here a CPU is read late."""

import math

import pytest
import torch

import specdec
from specdec.devices import READ_LATE
from specdec.methods import METHODS
from specdec.methods.late import LateOrders, LateTokens
from specdec.race import first_of
from specdec.topology import Topology, batch, sequence, specinfer
from tests.helpers.distributions import TREE, markov_pair, pair_of, samplings

WIDE = Topology([*((child,) for child in range(10)), (0, 0), (9, 0), (9, 1)])  # more children than tokens
TREES = {"sequence": sequence(4), "batch": batch(5), "tree": TREE, "specinfer": specinfer(11), "wide": WIDE}


@pytest.fixture
def late():
    """A function that makes all devices read late. Before it is called, none is."""
    usual = {*READ_LATE}
    READ_LATE.clear()
    yield lambda: READ_LATE.update(("cpu", "cuda"))
    READ_LATE.clear()
    READ_LATE.update(usual)


def texts(pair, **settings):
    """A run, and three runs in one batch."""
    alone = specdec.generate(pair, [0], seed=7, **settings)
    return alone, *specdec.generate_many(pair, [[0], [1], [0]], seeds=[7, 8, 9], **settings)


def recorded(run):
    return [(round.tokens, round.nodes, round.steps, round.finish) for round in run.rounds]


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("method", METHODS)
def test_runs_are_the_same(late, method, tree):
    """With little support, nodes lack tokens, and the tree is cut. Every tree and every method meets all
    settings of sampling, each pair of both a third of them. Plain decoding with details is read at once."""
    detail, first = method != "ar", ([*TREES].index(tree) + [*METHODS].index(method)) % 3
    for number, sampling in [*enumerate(samplings([0, 0.3, 1]))][first::3]:
        pair = markov_pair(8, seed=number)
        settings = sampling | {"method": method, "topology": TREES[tree], "max_new_tokens": 12}
        at_once = texts(pair, detail=detail, **settings)
        late()
        assert list(map(recorded, texts(pair, detail=detail, **settings))) == list(map(recorded, at_once))
        READ_LATE.clear()


@pytest.mark.parametrize("method", ["ar", "ersd", "gsd"])
def test_runs_of_a_real_pair_are_the_same(late, pair, method):
    settings = {"method": method, "topology": sequence(3), "max_new_tokens": 40, "seed": 3}
    at_once = specdec.generate(pair, "One day", **settings)
    late()
    assert recorded(specdec.generate(pair, "One day", **settings)) == recorded(at_once)


def test_plain_decoding_launches_each_forward_pass_before_it_reads_the_token_before(late, monkeypatch):
    late()
    events = []
    pair, read = markov_pair(8), LateOrders.read
    monkeypatch.setattr(LateOrders, "read", lambda self: events.append("read") or read(self))
    session = type(pair.target.session())
    forward = session.forward
    monkeypatch.setattr(
        session, "forward", lambda *arguments: events.append("forward") or forward(*arguments)
    )
    specdec.generate(pair, [0], method="ar", max_new_tokens=3)
    assert events == ["forward", "forward", "read", "forward", "read"]


def test_a_draft_is_read_once(late, monkeypatch):
    late()
    reads = []
    read = LateOrders.read
    monkeypatch.setattr(LateOrders, "read", lambda self: reads.append(1) or read(self))
    for tree in (sequence(4), TREE):
        reads.clear()
        run = specdec.generate(markov_pair(8), [0], method="ersd", topology=tree, max_new_tokens=6)
        assert len(reads) == sum(bool(round.nodes) for round in run.rounds)


@pytest.mark.parametrize("tree", [sequence(2), TREE])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("model", ["target", "draft"])
@pytest.mark.parametrize("temperature", [0, 1])
def test_broken_logits_are_refused(late, tree, bad, model, temperature):
    late()
    pair = markov_pair(8)
    getattr(pair, model).log_table[:, 3] = bad
    for method in ("ersd", "gsd") + ("ar",) * (model == "target"):
        settings = {"method": method, "topology": tree, "max_new_tokens": 6, "temperature": temperature}
        with pytest.raises(ValueError, match="logits hold NaN"):
            specdec.generate(pair, [0], **settings)


def test_a_text_ends_at_the_end_token_and_at_the_last_place(late):
    """The forward pass that was launched ahead is dropped."""
    late()
    pair = pair_of([0.4, 0.4, 0.2], [0.4, 0.4, 0.2])
    pair.eos_ids = frozenset({2})
    runs = [specdec.generate(pair, [0], method="ar", max_new_tokens=5, seed=seed) for seed in range(40)]
    assert {run.rounds[-1].finish for run in runs} == {"eos", "length"}
    assert all(2 not in run.token_ids[:-1] for run in runs)


def test_tokens_are_read_at_the_first_access():
    times = torch.tensor([[3.0, 1.0, 2.0], [math.nan, 1.0, 2.0]], dtype=torch.float64)
    tokens = LateTokens([9], [first_of(times[:1], 1)])
    assert tokens.on_device.tolist() == [9, 1] == [*tokens]
    broken = LateTokens([], [first_of(times[:1], 1), first_of(times[1:], 1)])
    assert len(broken) == 2
    with pytest.raises(ValueError, match="logits hold NaN"):
        broken[0]
