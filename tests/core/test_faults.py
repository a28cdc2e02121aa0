"""The message for a visitor when something breaks, and the service of the next visitor."""

import gc
import json
import weakref
from contextlib import contextmanager
from unittest.mock import Mock

import pytest
import torch

import specdec
from components.page.settings import VisitorSettings
from components.runs import feed, run, seats
from tests.conftest import let_closed_runs_end

SETTINGS = VisitorSettings(prompt="Once upon a time", max_new_tokens=24, seed=3)
NO_MEMORY = "The model ran out of memory: shorten the prompt or the length, or lower k."
FAILED = "The model failed; the server's log says why."
CPU_ALLOCATOR = "[enforce fail at alloc_cpu.cpp:124] DefaultCPUAllocator: can't allocate memory: 9 bytes"


class Breaking:
    """A session that raises at its third forward pass."""

    def __init__(self, session, error):
        self.session, self.error, self.forwards = session, error, 0

    def __getattr__(self, name):
        return getattr(self.session, name)

    def forward(self, *arguments):
        self.forwards += 1
        if self.forwards == 3:
            raise self.error
        return self.session.forward(*arguments)


@contextmanager
def breaking(model, error):
    """All sessions that the model creates meanwhile break. Yields references to them."""
    open_session, sessions = model.session, []

    def session():
        broken = Breaking(open_session(), error)
        sessions.append(weakref.ref(broken))
        return broken

    model.session = session
    try:
        yield sessions
    finally:
        del model.session


def received(pair, settings=SETTINGS):
    return [json.loads(update) for update in run.updates(pair, settings, interval=0.0)]


def token_ids(updates):
    return [token["id"] for update in updates for round in update["rounds"] for token in round["tokens"]]


@pytest.mark.parametrize(
    ("model", "error", "message"),
    [
        ("target", torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"), NO_MEMORY),
        ("draft", MemoryError(), NO_MEMORY),
        ("target", RuntimeError(CPU_ALLOCATOR), NO_MEMORY),
        ("target", RuntimeError("CUDA error: device-side assert"), FAILED),
        ("draft", KeyError("layer.7"), FAILED),
    ],
)
def test_a_model_that_breaks_in_the_middle_of_a_run(pair, monkeypatch, model, error, message):
    logged = []  # a log of pytest would hold the frames of the error, and with them the caches
    monkeypatch.setattr(feed.logging, "error", lambda text, exc_info: logged.append((text, str(exc_info))))
    token_ids_of_run = specdec.generate(pair, SETTINGS.prompt, max_new_tokens=24, seed=3).token_ids
    with breaking(getattr(pair, model), error) as sessions:
        updates = received(pair)
    last = updates[-1]
    assert (last["phase"], last["message"]) == ("error", message)
    before = token_ids(updates)
    assert before == token_ids_of_run[: len(before)]  # the rounds before the error stay, and are right
    assert logged == [("a run failed", str(error))]
    error.__traceback__ = None
    gc.collect()
    assert sessions
    assert all(session() is None for session in sessions)  # the sessions are freed with their caches
    assert seats.MODEL.num_seated == 0
    assert token_ids(received(pair)) == token_ids_of_run  # the next visitor


def test_models_that_do_not_load_are_told_and_tried_again_by_the_next_visitor(pair):
    from components.runs.lazy import LazyPair

    loads = [ValueError("no weights in 'some/folder'"), OSError("disk gone"), pair]
    lazy = LazyPair(Mock(side_effect=loads))
    assert received(lazy)[-1]["message"] == "no weights in 'some/folder'"
    assert received(lazy)[-1]["message"] == FAILED
    assert received(lazy)[-1]["phase"] == "done"
    assert seats.MODEL.num_seated == 0


def test_a_visitor_who_leaves_in_the_middle_frees_seat_and_caches(pair):
    sessions = []
    open_session = pair.target.session
    pair.target.session = lambda: sessions.append(open_session()) or sessions[-1]
    try:
        updates = run.updates(pair, SETTINGS, interval=0.0)
        while '"number"' not in next(updates):
            pass
        assert seats.MODEL.num_seated == 1
        updates.close()
        assert seats.MODEL.num_seated == 0
    finally:
        del pair.target.session
    let_closed_runs_end()
    [session] = map(weakref.ref, sessions)
    sessions.clear()
    gc.collect()
    assert session() is None
