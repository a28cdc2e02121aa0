"""Rounds on a device, without one: the same records as the host's, and nothing read but one tensor a round.

That nothing is read is shown on torch's "meta" device, whose tensors have no values: whoever reads one
raises.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest
import torch

import specdec
from specdec.context import ContextAcceptance, ContextTree
from specdec.context.acceptance import Hazards
from specdec.context.features import WIDTH
from specdec.decoding.clock import Clock
from specdec.decoding.engine import Engine, RunSettings
from specdec.decoding.on_device import DeviceEngine, engine_for
from specdec.decoding.on_device import engine as device_engine
from specdec.decoding.on_device.engine import ON_DEVICE
from specdec.models import HFModel, MarkovModel
from specdec.models.together.forwards import alone
from specdec.probs import Sampling
from specdec.topology import Topology, batch, sequence, specinfer
from specdec.trace import Seconds
from tests.helpers.laws import adversarial, markov_pair, random_table
from tests.helpers.tiny_checkpoints import tiny_model

TREE = Topology([(0,), (1,), (2,), (0, 0), (0, 1), (1, 0), (0, 0, 0), (1, 0, 0), (1, 0, 1)])
OPTIMAL = specdec.optimal_topology([0.5, 0.2, 0.1, 0.05], 16)
TOPOLOGIES = [sequence(4), batch(5), TREE, specinfer(8), OPTIMAL]
NAMES = ["sequence", "batch", "tree", "specinfer", "optimal"]
PLAIN = Sampling()
SAMPLINGS = [
    PLAIN,
    Sampling(0.6),
    Sampling(top_k=3),
    Sampling(top_p=0.7),
    Sampling(0),
    Sampling(0.8, 5, 0.9),
]
AVERAGE = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002)


def rounds(kind, pair, method, topology, *, sampling=PLAIN, tokens=40, seed=3, detail=True, prompt=(0, 1)):
    """A run's rounds under this engine, without their times."""
    topology = Topology([]) if method == "ar" else topology
    engine = kind(pair, RunSettings(method, tokens, sampling, seed, detail), topology, prompt, seed)
    engine.prefill()
    found = []
    while not found or found[-1].finish is None:
        found.append(engine.round(len(found)))
    return [replace(round, seconds=Seconds()) for round in found]


def assert_equal(there, here):
    """The same rounds; of GSD's trials p and q up to the last places, which hang on the order of sums."""
    assert list(map(without_trials, there)) == list(map(without_trials, here))
    for a, b in zip(trials(there), trials(here), strict=True):
        assert (a.path, a.token_id, a.u, a.accepted) == (b.path, b.token_id, b.u, b.accepted)
        assert (a.p, a.q) == pytest.approx((b.p, b.q), rel=1e-9, abs=1e-12)


def without_trials(round):
    return replace(round, steps=tuple(replace(step, trials=()) for step in round.steps))


def trials(rounds):
    return [trial for round in rounds for step in round.steps for trial in step.trials]


def assert_same(pair, method, topology, **asked):
    here = rounds(Engine, pair, method, topology, **asked)
    assert_equal(rounds(DeviceEngine, pair, method, topology, **asked), here)
    return here


@pytest.mark.parametrize("topology", TOPOLOGIES, ids=NAMES)
@pytest.mark.parametrize("method", ["gsd", "ersd"])
def test_a_round_on_a_device_is_the_host_s(method, topology):
    for seed, sampling in enumerate(SAMPLINGS):
        assert_same(markov_pair(8, seed), method, topology, sampling=sampling, seed=seed)


def test_a_plain_round_on_a_device_is_the_host_s():
    for seed, sampling in enumerate(SAMPLINGS):
        assert_same(markov_pair(8, seed), "ar", Topology([]), sampling=sampling, seed=seed)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("method", ON_DEVICE)
def test_a_round_of_transformers_is_the_host_s_too(method, dtype):
    pair = specdec.ModelPair(tiny_model("llama", dtype), tiny_model("llama", dtype, seed=1))
    for topology, sampling in itertools.product((TREE, sequence(3)), SAMPLINGS[:4]):
        assert_same(pair, method, topology, sampling=sampling, tokens=24)


@pytest.mark.parametrize("method", ON_DEVICE)
def test_a_round_of_the_embedded_pair_is_the_host_s_too(method):
    pair = specdec.load_pair()
    prompt = pair.encode("Once upon a time")
    assert_same(pair, method, OPTIMAL, tokens=48, prompt=prompt)
    assert_same(pair, method, OPTIMAL, tokens=48, prompt=prompt, detail=False, seed=4)


def narrow_pair(seed, vocab_size=8, support=2):
    """A draft that knows few tokens, and a target that likes the others as well."""
    p, q = random_table(vocab_size, 1, seed), random_table(vocab_size, 1, seed + 1)
    few = torch.arange(vocab_size)
    q = q.where((few[:, None] + few) % (vocab_size // support) == 0, 0.0)
    return specdec.ModelPair(MarkovModel(p), MarkovModel(q / q.sum(-1, keepdim=True)))


@pytest.mark.parametrize("topology", [batch(5), TREE, batch(12)], ids=["batch", "tree", "beyond"])
@pytest.mark.parametrize("method", ["gsd", "ersd"])
def test_children_without_support_are_not_there(method, topology):
    for seed in range(5):
        found = assert_same(narrow_pair(seed), method, topology, seed=seed)
        assert all(len(round.nodes) < topology.num_draft_tokens for round in found)


@pytest.mark.parametrize("method", ["gsd", "ersd"])
def test_children_without_support_would_be_noticed(method, monkeypatch):
    """Negative control: a node that is taken to be there although q had no such token."""
    read = device_engine.Table.read
    monkeypatch.setattr(
        device_engine.Table,
        "read",
        lambda packed: read(packed)._replace(supported=[True] * len(packed)),
    )
    with pytest.raises(AssertionError):
        assert_same(narrow_pair(0), method, TREE)


@pytest.mark.parametrize("method", ["gsd", "ersd"])
def test_gsd_s_rejections_matter_and_ersd_s_races_too(method, monkeypatch):
    """Negative control of the equality: one wrong probability, or one wrong winner, in every round."""
    read = device_engine.Table.read

    def spoiled(packed):
        table = read(packed)
        return table._replace(p=[0.9 * p for p in table.p], winners=[(w + 1) % 8 for w in table.winners])

    monkeypatch.setattr(device_engine.Table, "read", spoiled)
    with pytest.raises(AssertionError):
        assert_same(markov_pair(8), method, TREE)


def test_an_adversarial_draft_on_a_narrow_vocabulary():
    """Nearly all is rejected: GSD's residuals of residuals."""
    for seed in range(4):
        table = random_table(16, 1, seed)
        pair = specdec.ModelPair(MarkovModel(table), MarkovModel(adversarial(table)))
        for topology in (batch(16), OPTIMAL):
            assert_same(pair, "gsd", topology, seed=seed)


@pytest.mark.parametrize("method", ["gsd", "ersd"])
def test_equal_models_leave_nothing_to_reject(method):
    table = random_table(8, 1, 0)
    assert_same(specdec.ModelPair(MarkovModel(table), MarkovModel(table)), method, TREE)


@pytest.mark.parametrize("method", ON_DEVICE)
@pytest.mark.parametrize("eos", range(3))
def test_a_text_ends_inside_the_tree_as_on_the_host(method, eos):
    pair = markov_pair(4, seed=2)
    pair.eos_ids = frozenset([eos])
    ends = {assert_same(pair, method, TREE, seed=seed, tokens=80)[-1].finish for seed in range(8)}
    assert ends == {"eos"}


@pytest.mark.parametrize("method", ON_DEVICE)
@pytest.mark.parametrize("length", [3, 4, 5, 9])
def test_contexts_end_as_on_the_host(method, length):
    pair = markov_pair(6)
    pair.target.context_length = length
    assert assert_same(pair, method, TREE)[-1].finish == "context"
    pair.target.context_length, pair.draft.context_length = 1 << 20, length
    assert_same(pair, method, sequence(4))
    assert_same(pair, method, TREE, tokens=length)


def outcome(kind, pair, method, seed):
    try:
        return rounds(kind, pair, method, TREE, seed=seed, detail=False, tokens=6)
    except ValueError as error:
        return str(error)


@pytest.mark.parametrize("whose", ["target", "draft"])
@pytest.mark.parametrize("method", ["gsd", "ersd"])
def test_broken_logits_are_an_error_where_the_host_has_one(method, whose):
    """A state whose logits are NaN is only an error where decoding gets there."""
    pair = markov_pair(8)
    getattr(pair, whose).log_table[5] = math.nan
    here = [outcome(Engine, pair, method, seed) for seed in range(12)]
    there = [outcome(DeviceEngine, pair, method, seed) for seed in range(12)]
    assert there == here
    assert {type(found) for found in here} == {str, list}
    assert all("logits hold NaN" in found for found in here if isinstance(found, str))


# On "meta"


def on_meta(*families, **changes):
    """A pair of real models whose tensors have no values."""
    target, draft = (
        HFModel(tiny_model(family, seed=seed, **changes)).to("meta") for seed, family in enumerate(families)
    )
    pair = specdec.ModelPair(target, draft)
    pair.eos_ids = frozenset()
    return pair


@pytest.fixture(scope="module")
def meta_pair():
    return on_meta("llama", "llama")


def made_up(topology, transfers):
    """A `Table.read` that reads nothing: what a device could have sent, with paths that are accepted."""

    def read(packed):
        assert packed.device.type == "meta"
        rows = len(packed)
        transfers.append(rows)
        tokens = [(5 * row + len(transfers)) % 61 for row in range(rows)]
        first = [children[0] if children else rows for children in topology.children]
        winners = [tokens[first[row]] if first[row] < rows else 7 for row in range(rows)]
        supported = [True] * (rows - 1) + [rows < 4]  # the last of a tree is a leaf, and not there
        half = [0.5] * rows
        return device_engine.Table(tokens, supported, winners, half, half, half, [0.6] * rows)

    return read


def rounds_on_meta(kind, pair, method, topology, sampling, monkeypatch, number):
    """Some rounds, and the rows that each of their transfers brought."""
    transfers = []
    topology = Topology([]) if method == "ar" else topology
    monkeypatch.setattr(device_engine.Table, "read", made_up(topology, transfers))
    engine = kind(pair, RunSettings(method, 60, sampling, 0, False), topology, [1, 2, 3], 0)
    engine.prefill()
    return [engine.round(i) for i in range(number)], transfers


@pytest.mark.parametrize("topology", TOPOLOGIES, ids=NAMES)
@pytest.mark.parametrize("method", ON_DEVICE)
def test_a_round_reads_one_small_tensor_from_the_device_and_nothing_else(
    meta_pair, method, topology, monkeypatch
):
    """Drafting, forward, verification of all nodes and both caches' commits, of real models."""
    assert engine_for(meta_pair, topology, "gsd") is DeviceEngine
    found, transfers = rounds_on_meta(DeviceEngine, meta_pair, method, topology, PLAIN, monkeypatch, number=4)
    assert transfers == [1 if method == "ar" else 1 + topology.num_draft_tokens] * 4
    accepted = 0 if method == "ar" else 1 if method == "gsd" else topology.depth - 1
    assert max(round.num_accepted for round in found) >= accepted


@pytest.mark.parametrize("sampling", [Sampling(0.6), *SAMPLINGS[2:]], ids=str)
@pytest.mark.parametrize("method", ON_DEVICE)
def test_nor_does_it_with_other_samplings(meta_pair, method, sampling, monkeypatch):
    found, transfers = rounds_on_meta(DeviceEngine, meta_pair, method, TREE, sampling, monkeypatch, number=2)
    assert len(found) == len(transfers)


@pytest.mark.parametrize("family", ["gemma3", "gpt2", "qwen3"])
@pytest.mark.parametrize("method", ON_DEVICE)
def test_nor_with_other_architectures(method, family, monkeypatch):
    pair = on_meta(family, "gpt2")
    found, transfers = rounds_on_meta(DeviceEngine, pair, method, TREE, PLAIN, monkeypatch, number=4)
    assert len(found) == len(transfers)


@pytest.mark.parametrize(
    ("family", "capability", "method"), [("mpt", "sequence", "ersd"), ("mamba", "ar", "ar")]
)
def test_nor_with_models_that_can_do_less(family, capability, method, monkeypatch):
    pair = on_meta(family, family)
    assert pair.target.capability == capability
    found, transfers = rounds_on_meta(DeviceEngine, pair, method, sequence(3), PLAIN, monkeypatch, number=4)
    assert len(found) == len(transfers)


@pytest.mark.parametrize("method", ON_DEVICE)
def test_the_host_s_rounds_read_more(meta_pair, method, monkeypatch):
    """Negative control: what reads from "meta" is noticed."""
    with pytest.raises((NotImplementedError, RuntimeError), match="meta"):
        rounds_on_meta(Engine, meta_pair, method, TREE, PLAIN, monkeypatch, number=1)


def test_what_is_transferred_is_the_table(meta_pair):
    engine = DeviceEngine(meta_pair, RunSettings("ersd", 60, PLAIN, 0, False), TREE, [1, 2, 3], 0)
    engine.prefill()
    launched = alone(engine.launch(3, Clock(meta_pair.target.device)))
    assert launched.packed.shape == (1 + TREE.num_draft_tokens, len(device_engine.Table._fields))
    with pytest.raises(NotImplementedError, match="meta"):
        device_engine.Table.read(launched.packed)


def test_a_device_decides_where_all_models_are_on_it(meta_pair):
    here = HFModel(tiny_model("llama"))
    stages = {"drafted": Hazards(torch.zeros(WIDTH, 8), torch.zeros(WIDTH))}
    grown = ContextTree(ContextAcceptance("ersd", AVERAGE, stages), 3)
    assert engine_for(meta_pair, grown, "gsd") is Engine  # its shape follows from what the host reads
    assert engine_for(markov_pair(), TREE, "gsd") is Engine
    assert engine_for(specdec.ModelPair(here, meta_pair.draft), TREE, "gsd") is Engine
    apart = specdec.ModelPair(meta_pair.target, here)
    assert engine_for(apart, TREE, "gsd") is Engine
    assert engine_for(apart, Topology([]), "gsd") is DeviceEngine


class Event:
    """A CUDA event that the device reaches at a time of its own, in milliseconds."""

    def __init__(self, at):
        self.at, self.waited = at, False

    def synchronize(self):
        self.waited = True

    def elapsed_time(self, end):
        assert end.waited
        return end.at - self.at


def test_a_lap_ends_when_the_device_has_done_what_was_launched(monkeypatch):
    events = iter([Event(70.0), Event(75.0), Event(95.0)])
    now = iter([2.0, 2.1, 2.2])
    monkeypatch.setattr(Clock, "_event", lambda self: next(events))
    monkeypatch.setattr("specdec.decoding.clock.time.perf_counter", lambda: next(now))
    clock = Clock(torch.device("cuda"))
    clock.launched()
    clock.launched()
    clock.lap()
    clock.lap()
    assert clock.seconds() == pytest.approx([0.005, 0.02, 0.075, 0.1])
