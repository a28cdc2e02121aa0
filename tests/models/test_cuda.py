"""Decoding on a real GPU gives the CPU's tokens. Machines without a GPU skip these tests.

`test_devices.py` shows on every machine that sessions make their tensors on the model's device.
"""

import pytest
import torch

import specdec
from specdec.decoding.clock import Clock
from specdec.methods import METHODS
from specdec.topology import batch, sequence

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no CUDA device")

OPTIMAL = specdec.optimal_topology([0.5, 0.2, 0.1, 0.05], 16)
PROMPT = "Once upon a time"


@pytest.fixture(scope="module")
def pairs():
    return specdec.load_pair("stories", device="cpu"), specdec.load_pair(
        "stories", device="cuda", dtype="float32"
    )


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


def test_a_lap_of_launched_work_lasts_as_long_as_the_work():
    clock = Clock(torch.device("cuda"))
    torch.cuda._sleep(100_000_000)
    clock.launched()
    clock.lap()
    launched, _ = clock.seconds()
    assert launched > 0.01  # a hundred million cycles
