"""Lesson 0's measurement: times of forward passes over several rows, in turns with the runs, within its
limits."""

import json
import threading
import time
from unittest.mock import Mock

import pytest

from components.lessons import forward
from components.runs import seats
from tests.helpers.distributions import markov_pair


def told(pair, visitor=seats.NOBODY):
    return [json.loads(text) for text in forward.updates(pair, visitor)]


def test_a_measurement_tells_milliseconds_by_rows(pair):
    [found] = told(pair)
    assert found["phase"] == "done"
    assert [rows for rows, _ in found["rows"]] == list(forward.ROWS)
    assert all(ms > 0 for _, ms in found["rows"])
    assert 1 <= found["passes"] <= forward.PASSES  # fewer passes if other processes keep the machine busy


def test_each_pass_forwards_so_many_rows_and_keeps_none_of_them(pair):
    forwards = forward.Forwards(pair.target, pair.encode(forward.PROMPT), rows=(1, 4))
    session = forwards._session
    forwards._session = Mock(wraps=session)
    forwards.one_pass()
    asked = [(len(call.args[0]), list(call.args[1])) for call in forwards._session.forward.call_args_list]
    assert asked == [(1, [-1]), (4, [-1, 0, 1, 2])]
    assert session.length == forward.PREFIX


def test_a_measurement_ends_when_its_time_is_over(pair, bounds, monkeypatch):
    bounds(forward_seconds=1)
    quick = forward.Forwards.one_pass
    monkeypatch.setattr(forward.Forwards, "one_pass", lambda self: (quick(self), time.sleep(1.1)))
    [found] = told(pair)
    assert found["passes"] == 1


def test_it_waits_for_the_model_while_a_run_has_it(pair):
    go_on = threading.Event()

    def busy():
        go_on.wait(60)
        yield

    updates = []
    measuring = threading.Thread(target=lambda: updates.extend(told(pair)))
    with seats.MODEL.seat(seats.Visitor("runs")) as seat:
        list(seat.wait())
        seat.do(busy())
        measuring.start()
        measuring.join(0.5)
        assert measuring.is_alive()
        go_on.set()
        measuring.join(60)
    assert updates[-1]["phase"] == "done"


def test_one_browser_tab_measures_only_so_often_at_once(pair):
    visitor = seats.Visitor("one", "tab")
    with seats.CHECKS.seat(visitor), seats.CHECKS.seat(visitor):
        [refused] = told(pair, visitor)
    assert refused["phase"] == "error"
    assert "at most 2 are allowed at once" in refused["message"]


def test_a_model_that_scores_one_token_a_forward_is_refused_in_words():
    pair = markov_pair()
    pair.target.capability = "ar"
    with pytest.raises(ValueError, match="scores only one token per forward pass"):
        forward.Forwards(pair.target, [0])


def test_where_a_gpu_is_lent_to_runs_only_nothing_is_measured(pair, monkeypatch):
    monkeypatch.setattr(forward.zero_gpu, "here", lambda: True)
    [refused] = told(pair)
    assert "shared GPU is for runs only" in refused["message"]


def test_whoever_leaves_gives_the_seat_back(pair):
    updates = forward.updates(pair, seats.Visitor("gone", "tab"))
    next(updates)
    updates.close()
    assert seats.CHECKS.num_seated == 0
