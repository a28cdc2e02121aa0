"""Decoding on a real GPU gives the CPU's tokens. Machines without a GPU skip these tests.

`test_devices.py` shows on every machine that sessions make their tensors on the model's device.
"""

import pytest
import torch

import specdec
from specdec.decoding.clock import Clock
from specdec.exactness.faults import FAULTS
from specdec.exactness.losslessness import Check
from specdec.methods import DRAFTING, METHODS
from specdec.models import MarkovModel
from specdec.topology import batch, sequence
from tests.helpers.distributions import FALSE_ALARM, TREE, random_table
from tests.helpers.texts import together_as_alone

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no CUDA device")

OPTIMAL = specdec.optimal_topology([0.5, 0.2, 0.1, 0.05], 16)
PROMPT = "Once upon a time"


@pytest.fixture(scope="module")
def pairs():
    here = specdec.load_pair("stories", device="cpu")
    return here, specdec.load_pair("stories", device="cuda", dtype="float32")


@pytest.mark.parametrize("settings", [{}, {"temperature": 0.7, "top_k": 50}, {"top_p": 0.9}], ids=str)
@pytest.mark.parametrize("topology", [sequence(4), batch(4), OPTIMAL], ids=["sequence", "batch", "optimal"])
@pytest.mark.parametrize("method", METHODS)
def test_a_gpu_gives_the_tokens_of_a_cpu(pairs, method, topology, settings):
    """A pair in float32, without and with the details of records."""
    settings = settings | {"method": method, "topology": topology, "max_new_tokens": 60, "seed": 5}
    here, there = (specdec.generate(pair, PROMPT, **settings) for pair in pairs)
    detailed = specdec.generate(pairs[1], PROMPT, detail=True, **settings)
    assert there.token_ids == here.token_ids == detailed.token_ids
    assert [round.nodes for round in there.rounds] == [round.nodes for round in here.rounds]


def p_value(method, topology, fault=None):
    """The p-value of the first two tokens of 1,500 decodes of a pair of three tokens on a GPU."""
    pair = specdec.ModelPair(*(MarkovModel(random_table(3, 1, seed).cuda()) for seed in (1, 2)))
    check = Check(pair, [0], method=method, topology=topology, length=2, seed=0, fault=fault)
    for _ in range(1500):
        check.decode()
    return check.chi_square().p_value


@pytest.mark.parametrize("topology", [sequence(2), TREE], ids=["sequence", "tree"])
@pytest.mark.parametrize("method", DRAFTING)
def test_the_text_has_the_targets_distribution_on_a_gpu(method, topology):
    """A χ² test, in which a false alarm has probability 1e-6."""
    assert p_value(method, topology) > FALSE_ALARM


@pytest.mark.parametrize("fault", ["kept-target", "kept-draft"])
def test_a_fault_is_caught_on_a_gpu(fault):
    """Negative control."""
    assert p_value(FAULTS[fault].method, batch(2), FAULTS[fault]) < FALSE_ALARM


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_both_models_of_a_pair_replay_graphs(dtype):
    pair = specdec.load_pair("stories", device="cuda", dtype=dtype)
    for model in (pair.target, pair.draft):
        session = model.session()
        session.prefill([1, 2, 3])
        session.forward(torch.tensor([4], device="cuda"), [-1])
        assert None not in model.decoder.graphs._graphs.values()
    assert f"lean forward, CUDA graphs, {dtype}, cuda" in pair.target.arithmetic


def test_texts_decoded_together_are_those_of_runs_alone(pairs):
    """In float32, where rounding changed no token of these texts."""
    settings = {"method": "ersd", "topology": OPTIMAL, "max_new_tokens": 60}
    together_as_alone(pairs[1], [PROMPT] * 12, range(12), **settings)


def test_a_lap_of_launched_work_lasts_as_long_as_the_work():
    clock = Clock(torch.device("cuda"))
    torch.cuda._sleep(100_000_000)
    clock.launched()
    clock.lap()
    launched, _ = clock.seconds()
    assert launched > 0.01  # a hundred million cycles
