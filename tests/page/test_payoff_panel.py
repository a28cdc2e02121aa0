"""The panel "Will it pay?": its set-ups, and its answers, which are those of `specdec.payoff`."""

import asyncio
import json
import threading
import time

import httpx
import pytest

from components.page import serving
from components.payoff import here, panel, presets
from components.runs.jobs import Owner
from components.runs.lazy import LazyPair, shared
from components.runs.queue import QUEUE
from specdec import ModelPair
from specdec.payoff import Payoff, changed
from tests.helpers.distributions import markov_pair

PAIR = markov_pair(6)
verdict = panel.answering(shared(PAIR))


@pytest.mark.parametrize("name", presets.presets())
def test_each_set_up_names_its_source_and_is_answered_as_by_the_command(name):
    preset, answer = presets.presets()[name], verdict({"preset": name})
    assert len(preset.source) > 80
    assert answer["source"] == preset.source
    payoff = Payoff.of(preset.setup)
    assert answer["sentences"] == payoff.sentences()
    assert [tuple(row) for row in answer["curve"]] == list(payoff.curve)
    shown = {**answer["values"], "rows": [float(f"{each:.3g}") for each in answer["values"]["rows"]]}
    typed = verdict({"preset": name, **shown})
    for row, same in zip(answer["curve"], typed["curve"], strict=True):
        assert row == pytest.approx(same)
    json.dumps(answer, allow_nan=False)


def test_what_the_set_ups_are_about_is_seen_in_them():
    payoffs = {name: Payoff.of(preset.setup) for name, preset in presets.presets().items()}
    assert payoffs["paper"].speed_up == pytest.approx(payoffs["paper"].tokens_per_call)  # only calls count
    rows = {name: preset.setup.rows for name, preset in presets.presets().items()}
    assert rows["laptop"][1] > 2  # four rows of a 4-bit target cost more than two calls
    assert rows["gpu"][-1] == pytest.approx(1)  # a GPU reads 64 rows in the time of one
    assert presets.presets()["gpu"].setup.texts == 64


def test_changed_values_are_used_and_told():
    changes = {"acceptance": 0.9, "draft_step": 0.1, "rest": 0.0, "texts": 2, "shape": "sequence"}
    rows = [1.0, 1.0, 1.5, 2.0, 3.0, 4.0]
    answer = verdict({"preset": "gpu", **changes, "rows": rows})
    assert {name: answer["values"][name] for name in changes} == pytest.approx(changes)
    assert answer["values"]["rows"] == pytest.approx(rows)
    setup = changed(presets.presets()["gpu"].setup, rows=rows, **changes)
    assert answer["speed_up"] == Payoff.of(setup).speed_up


def answered(verdict):
    """The answer about this server. It is requested again during the measurement, as by the page."""
    end = time.monotonic() + 60
    while "measuring" in (answer := verdict({"preset": "here"})):
        assert time.monotonic() < end
    return answer


def test_this_servers_pair_is_measured_once_for_all_visitors():
    fresh, peek = panel.answering(shared(PAIR)), {"preset": "here", "begins": False}
    assert fresh(peek) == {"unknown": True}
    answer = answered(fresh)
    assert "target with draft" in answer["source"]
    assert fresh({"preset": "here"})["values"] == fresh(peek)["values"] == answer["values"]


def test_a_pair_without_a_draft_says_so():
    alone = panel.answering(shared(ModelPair(PAIR.target, None)))
    assert "depends on the text" in answered(alone)["error"]


@pytest.fixture
def endless(monkeypatch):
    """A measurement that never ends. The event is set when it is cancelled."""
    cancelled = threading.Event()

    def steps(*_):
        try:
            while True:
                time.sleep(0.001)
                yield
        finally:
            cancelled.set()

    monkeypatch.setattr(here, "measuring", steps)
    return cancelled


def test_a_measurement_delays_no_other_question_and_ends_when_its_visitor_has_left(endless, monkeypatch):
    monkeypatch.setattr(here, "PATIENCE", 1.0)
    fresh, start = panel.answering(shared(PAIR)), time.monotonic()
    assert 0 < fresh({"preset": "here"})["measuring"]["share"] < 1
    assert fresh({"preset": "gpu"})["speed_up"] > 1
    assert time.monotonic() - start < 1.0
    QUEUE.submit(Owner(), (None for _ in range(1))).wait()  # another job
    assert not endless.is_set()
    assert endless.wait(30)


async def asked_by_thirty(http):
    """The seconds of another question while thirty pages ask for the measurement."""

    async def answer(preset):
        return (await http.post("/ask/payoff/verdict", json={"preset": preset})).json()

    start, polls = time.monotonic(), [asyncio.create_task(answer("here")) for _ in range(30)]
    await asyncio.sleep(0.01)  # they are sent first
    assert (await answer("gpu"))["speed_up"] > 1
    seconds = time.monotonic() - start
    assert all("measuring" in poll for poll in await asyncio.gather(*polls))
    return seconds


@pytest.mark.usefixtures("endless")
def test_pages_that_wait_for_the_measurement_delay_no_other_question_and_their_address_pays():
    """If each of them held its thread for a fifth of a second, the question would wait for six seconds."""
    asker = "203.0.113.7"

    async def seconds():
        transport = httpx.ASGITransport(serving.server(panel.panel(PAIR)), client=(asker, 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=60) as http:
            return await asked_by_thirty(http)

    assert asyncio.run(seconds()) < 3
    assert any(QUEUE.paid(asker) or time.sleep(0.01) for _ in range(300))


def test_a_measurement_goes_on_while_it_is_asked_for(endless, monkeypatch):
    """Negative control of the test before: here the visitor stays."""
    monkeypatch.setattr(here, "PATIENCE", 1.0)
    fresh, end = panel.answering(shared(PAIR)), time.monotonic() + 3
    while time.monotonic() < end:
        assert "measuring" in fresh({"preset": "here"})
        assert not endless.is_set()
    assert endless.wait(30)


def test_a_measurement_ends_when_the_pair_of_the_server_is_another_one(endless):
    pair = shared(markov_pair(6))
    fresh = panel.answering(pair)
    while not fresh({"preset": "here"})["measuring"]["left"]:
        time.sleep(0.001)  # it has not begun
    pair.exchange(markov_pair(6, seed=4))
    assert endless.wait(here.PATIENCE / 2)


def test_models_that_are_not_loaded_yet_are_not_waited_for():
    loads = []
    answer = panel.answering(LazyPair(lambda: loads.append(1) or PAIR))({"preset": "here"})
    assert "still being loaded" in answer["error"]
    assert loads == []
