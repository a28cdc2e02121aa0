"""Decoding on a real GPU, for machines that have one: the CPU's tokens, and rounds that nobody waits in.

Elsewhere these tests are skipped; test_on_device.py shows the same on CPU tensors and on ones without values.
"""

from __future__ import annotations

import time
from contextlib import contextmanager

import pytest
import torch

import specdec
from specdec.decoding.clock import Clock
from specdec.decoding.engine import Engine, RunSettings
from specdec.decoding.on_device import DeviceEngine, engine_for
from specdec.methods import METHODS
from specdec.probs import Sampling
from specdec.topology import Topology, batch, sequence

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no CUDA device")

OPTIMAL = specdec.optimal_topology([0.5, 0.2, 0.1, 0.05], 16)
PROMPT = "Once upon a time"


@pytest.fixture(scope="module")
def pairs():
    return specdec.load_pair(device="cpu"), specdec.load_pair(device="cuda", dtype="float32")


@pytest.mark.parametrize("settings", [{}, {"temperature": 0.7, "top_k": 50}, {"top_p": 0.9}], ids=str)
@pytest.mark.parametrize("topology", [sequence(4), batch(4), OPTIMAL], ids=["sequence", "batch", "optimal"])
@pytest.mark.parametrize("method", METHODS)
def test_a_gpu_says_what_a_cpu_says(pairs, method, topology, settings):
    """float32, without and with the records' details."""
    settings = settings | {"method": method, "topology": topology, "max_new_tokens": 60, "seed": 5}
    here, there = (specdec.generate(pair, PROMPT, **settings) for pair in pairs)
    detailed = specdec.generate(pairs[1], PROMPT, detail=True, **settings)
    assert there.token_ids == here.token_ids == detailed.token_ids
    assert [round.nodes for round in there.rounds] == [round.nodes for round in here.rounds]


@contextmanager
def waiting_is_an_error():
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def engine(kind, pair, method):
    topology = Topology([]) if method == "ar" else OPTIMAL
    new = kind(
        pair, RunSettings(method, 60, Sampling(0.8, 50, 0.9), 5, False), topology, pair.encode(PROMPT), 5
    )
    new.prefill()
    return new


@pytest.mark.parametrize("method", METHODS)
def test_nobody_waits_while_a_round_is_launched(pairs, method):
    """Masks and plans of shapes that are new are sent with a wait: an earlier run has had them all."""
    for launch in (Engine.round, Engine.round, launched_round):
        run, number = engine(engine_for(pairs[1], OPTIMAL, method), pairs[1], method), 0
        assert isinstance(run, DeviceEngine)
        while launch(run, number).finish is None:
            number += 1


def launched_round(run, number):
    decide = run.launch

    def launch(position, clock):
        with waiting_is_an_error():
            return (yield from decide(position, clock))

    run.launch = launch
    try:
        return run.round(number)
    finally:
        del run.launch


@pytest.mark.parametrize("method", METHODS)
def test_waiting_would_be_noticed(pairs, method):
    """Negative control: rounds in which the host decides."""
    run = engine(Engine, pairs[1], method)
    run.round(0)
    with pytest.raises(RuntimeError, match="synchroniz"), waiting_is_an_error():
        run.round(1)


def test_a_round_s_seconds_are_those_that_pass(pairs):
    run = engine(DeviceEngine, pairs[1], "ersd")
    run.round(0)
    start = time.perf_counter()
    seconds = run.round(1).seconds
    passed = time.perf_counter() - start
    assert min(seconds.draft, seconds.evaluate, seconds.verify) > 0
    assert 0.5 * passed < seconds.total <= passed


def test_a_lap_of_launched_work_lasts_as_long_as_the_work():
    clock = Clock(torch.device("cuda"))
    torch.cuda._sleep(100_000_000)
    clock.launched()
    clock.lap()
    launched, _ = clock.seconds()
    assert launched > 0.01  # a hundred million cycles
