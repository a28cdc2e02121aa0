"""Rounds decoded ahead of the page: none is lost or doubled, and a run that nobody watches any more ends."""

from __future__ import annotations

import contextvars
import threading
from queue import SimpleQueue

import pytest

from components.server.ahead import Ahead
from components.server.turns import Bounds, Turns

PATIENCE = 60
"""Seconds until a test gives up."""


class Handed:
    """A run whose rounds are handed to it one by one: None is its end, an error is raised."""

    def __init__(self, *rounds):
        self.rounds = SimpleQueue()
        self.asked = threading.Semaphore(0)
        self.closed = threading.Event()
        self.hand(*rounds)

    def hand(self, *rounds):
        for round in rounds:
            self.rounds.put(round)

    def __iter__(self):
        return self

    def __next__(self):
        self.asked.release()
        round = self.rounds.get(timeout=PATIENCE)
        if round is None:
            raise StopIteration
        if isinstance(round, Exception):
            raise round
        return round

    def close(self):
        self.closed.set()


def ahead(run, steps=None):
    return Ahead(Turns(lambda: Bounds(1, 1, 1, 1)).seat(), steps or beginning(run))


def beginning(run, steps=0):
    for _ in range(steps):
        yield
    return run


def asked_for(run, number):
    assert all(run.asked.acquire(timeout=PATIENCE) for _ in range(number))


def test_every_round_comes_once_in_order_and_the_run_is_closed():
    run = Handed(*range(100), None)
    batches = list(ahead(run).batches(0))
    assert [round for batch in batches for round in batch] == list(range(100))
    assert all(batches)
    assert run.closed.wait(PATIENCE)


def test_rounds_wait_for_their_time_but_not_beyond_the_end():
    run = Handed(1)
    batches = ahead(run).batches(3600)
    assert next(batches) == [1]  # whoever asked waits for this one most
    run.hand(2, 3, None)
    assert list(batches) == [[2, 3]]


def test_decoding_goes_on_while_a_batch_is_on_its_way():
    run = Handed(1)
    batches = ahead(run).batches(0)
    assert next(batches) == [1]
    run.hand(2, 3)
    asked_for(run, 4)  # the fourth is asked for when the third is there
    assert next(batches) == [2, 3]
    run.hand(None)
    assert list(batches) == []


def test_an_error_comes_after_the_rounds_before_it():
    run = Handed(1)
    batches = ahead(run).batches(3600)
    assert next(batches) == [1]
    run.hand(2, 3, ValueError("broken"))
    assert next(batches) == [2, 3]
    with pytest.raises(ValueError, match="broken"):
        next(batches)
    assert run.closed.is_set()


def test_a_run_without_rounds_has_no_batches():
    assert list(ahead(Handed(None)).batches(0)) == []


def test_whoever_closes_does_not_wait_and_the_run_ends_with_its_round():
    run = Handed(1)
    decoding = ahead(run)
    assert next(decoding.batches(0)) == [1]
    asked_for(run, 2)
    decoding.close()  # the second round is in progress
    assert not run.closed.is_set()
    run.hand(2, 3)
    assert run.closed.wait(PATIENCE)
    assert run.rounds.get(timeout=PATIENCE) == 3


def test_the_beginning_is_told_of_until_the_run_is_there():
    run, go_on = Handed(1, None), threading.Event()

    def measuring():
        go_on.wait(PATIENCE)
        yield
        return run

    decoding = ahead(run, measuring())
    told = decoding.beginning(0.001)
    assert [next(told), next(told)] == [None, None]
    go_on.set()
    list(told)
    assert decoding.run is run
    assert list(decoding.batches(0)) == [[1]]


def test_what_keeps_a_run_from_beginning_is_raised():
    decoding = ahead(None, (1 / 0 for _ in range(3)))
    with pytest.raises(ZeroDivisionError):
        list(decoding.beginning(PATIENCE))


def test_whoever_closes_ends_the_beginning_after_its_step():
    asked, go_on, closed = threading.Semaphore(0), threading.Semaphore(0), threading.Event()

    def measuring():
        try:
            while True:
                asked.release()
                go_on.acquire(timeout=PATIENCE)
                yield
        finally:
            closed.set()

    decoding = ahead(None, measuring())
    assert asked.acquire(timeout=PATIENCE)
    decoding.close()
    assert not closed.is_set()
    go_on.release()
    assert closed.wait(PATIENCE)
    assert not asked.acquire(blocking=False)


def test_a_run_begins_in_the_context_of_whoever_asked():
    """There `spaces` finds the visitor's request, whose GPU time it counts."""
    request, found = contextvars.ContextVar("request", default=None), []

    def asking():
        yield found.append(request.get())
        return Handed(None)

    request.set("a visitor's")
    list(ahead(None, asking()).batches(0))
    assert found == ["a visitor's"]
