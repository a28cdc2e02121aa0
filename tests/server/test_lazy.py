"""The page opens before its models are loaded: the pair is loaded at its first use, and only once."""

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import torch

import app
from components.page.settings import VisitorSettings
from components.runs import run, seats
from components.runs.lazy import _ALL_THREADS, LazyPair, present, shared, use_threads


def test_the_first_use_loads_and_visitors_who_come_together_load_once():
    loads = []

    def load():
        time.sleep(0.05)
        loads.append(1)
        return SimpleNamespace(target="t")

    pair = LazyPair(load)
    assert (pair.loaded, loads) == (False, [])
    with ThreadPoolExecutor() as visitors:
        assert [*visitors.map(lambda _: pair.target, range(5))] == ["t"] * 5
    assert (pair.loaded, loads) == (True, [1])


def test_a_visitor_who_leaves_while_the_first_pair_is_loaded_frees_the_seat(monkeypatch):
    monkeypatch.setattr(seats, "TOLD_EVERY", 0.01)
    go_on = threading.Event()
    pair = LazyPair(lambda: go_on.wait(5))
    updates = run.updates(pair, VisitorSettings("Once"))
    assert json.loads(next(updates))["phase"] == "waiting"
    assert (pair.loaded, seats.MODEL.num_seated) == (False, 1)
    updates.close()
    assert seats.MODEL.num_seated == 0
    go_on.set()


def test_a_pair_in_memory_is_exchanged_for_all_later_uses():
    pair = shared(SimpleNamespace(target="old"))
    assert pair.loaded
    assert shared(pair) is pair
    old = present(pair)
    pair.exchange(SimpleNamespace(target="new"))
    assert (old.target, pair.target, present(pair).target) == ("old", "new", "new")


@pytest.mark.parametrize(("width", "threads"), [(10, 1), (5000, _ALL_THREADS)])
def test_a_small_model_gets_one_thread_and_a_large_one_all(width, threads):
    with torch.device("meta"):
        module = torch.nn.Linear(width, width)
    before = torch.get_num_threads()
    try:
        use_threads(type("Pair", (), {"target": SimpleNamespace(module=module)})())
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)


def test_the_coder_pair_is_downloaded_only_if_that_is_allowed(monkeypatch):
    monkeypatch.setattr("specdec.coder.installed", lambda: None)
    with pytest.raises(ValueError, match=r"coder is a download of 1\.6 GB"):
        app._name(app.options.parse(["--pair", "coder"], {}))
    allowed = app._name(app.options.parse([], {"SPECDEC_PAIR": "coder", "SPECDEC_DOWNLOAD": "1"}))
    assert allowed in ("smollm2", "stories")  # the old pair answers meanwhile


def test_the_next_pair_is_loaded_after_the_first(monkeypatch):
    order = []
    monkeypatch.setattr("components.runs.lazy.load", lambda *names, **_: order.append(names))
    first = LazyPair(lambda: order.append("first") or SimpleNamespace())
    app._load_next(first, "coder", None)
    assert order == ["first", ("coder", None)]
