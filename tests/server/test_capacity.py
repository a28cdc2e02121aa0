"""As many runs at once as there are time and memory for. If that can't be measured, only a few."""

import threading
from concurrent.futures import ThreadPoolExecutor, wait

import pytest

import specdec
from components.runs import capacity, seats
from components.runs.capacity import FEWEST, LONGEST
from components.runs.lazy import shared
from components.runs.queue import Queue
from components.visitors import limits
from specdec.decoding.acceptance import finished
from specdec.models import free_memory, memory
from tests.helpers.distributions import markov_pair


@pytest.fixture(autouse=True)
def unknown(monkeypatch):
    monkeypatch.setattr(capacity, "_num_runs", FEWEST)


def measured(pair, monkeypatch, one, of_each):
    """Measure with rounds that take `one` second alone, and `of_each` more for each further run."""

    def seconds(pair, runs):
        yield
        return one + (runs - 1) * of_each

    monkeypatch.setattr(capacity, "_seconds", seconds)
    return finished(capacity.measuring(pair))


@pytest.mark.parametrize(
    ("one", "of_each", "runs"),
    [
        (0.1, (LONGEST - 0.1) / 30.5, 31),
        (0.1, 10.0, FEWEST),  # a slow model: as many runs as in turns
        (2 * LONGEST, 0.0, FEWEST),
        (0.1, LONGEST, FEWEST),
    ],
)
def test_a_round_of_all_has_its_time(one, of_each, runs, monkeypatch):
    assert measured(markov_pair(6), monkeypatch, one, of_each) == runs


@pytest.mark.parametrize(("fit", "runs"), [(3, 3), (0, 1), (20, 20)])
def test_runs_take_half_of_the_memory_that_is_free(pair, fit, runs, monkeypatch):
    bytes_of_run = sum(memory.need_of_run(model, model.vocab_size) for model in (pair.target, pair.draft))
    monkeypatch.setattr(free_memory, "free", lambda where: int((2 * fit + 1) * bytes_of_run))
    assert measured(pair, monkeypatch, 0.01, 0.001) == runs


def test_what_a_run_needs_is_what_was_planned_before_loading(pair):
    shape = memory.shape_of(pair.target.module.config)
    planned = memory.need_of(shape, "float32", on_cpu=True)
    assert memory.need_of_run(pair.target, pair.target.vocab_size) == planned.run


def test_a_real_measurement_bounds_the_line(pair, monkeypatch):
    capacity.measure(pair, Queue())
    assert capacity.known() >= FEWEST
    assert seats._runs().seats == min(capacity.known(), limits.current().seats)
    monkeypatch.setattr(capacity, "_num_runs", 3)
    assert seats._runs().seats == 3


def test_the_pair_that_is_present_last_is_the_one_that_is_measured(monkeypatch):
    """A visitor's pair is loaded while the first one is still measured."""
    pairs = {seats: markov_pair(6) for seats in (20, 30)}
    first, release = threading.Event(), threading.Event()

    def measuring(pair):
        yield
        if pair is pairs[20]:
            first.set()
            assert release.wait(10)
        return next(seats for seats, each in pairs.items() if each is pair)

    monkeypatch.setattr(capacity, "measuring", measuring)
    shared_pair = shared(pairs[20])
    with ThreadPoolExecutor() as threads:
        threads.submit(capacity.measure, shared_pair, Queue())
        assert first.wait(10)
        shared_pair.exchange(pairs[30])
        second = threads.submit(capacity.measure, shared_pair, Queue())
        wait([second], 0.2)
        release.set()
    assert capacity.known() == 30


def test_models_without_a_draft_are_measured_too():
    capacity.measure(specdec.ModelPair(markov_pair(6).target), Queue())
    assert capacity.known() >= FEWEST


def test_where_it_can_not_be_found_out_a_few_are_taken(monkeypatch, caplog):
    monkeypatch.setattr(capacity, "_num_runs", 50)
    capacity.measure(object(), Queue())  # no pair in this process
    assert capacity.known() == FEWEST
    monkeypatch.setattr(capacity, "_num_runs", 50)
    monkeypatch.setattr(capacity, "_seconds", lambda pair, runs: 1 / 0)
    capacity.measure(markov_pair(6), Queue())
    assert capacity.known() == FEWEST
    assert "could not be measured" in caplog.text
