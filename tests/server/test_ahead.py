"""Rounds decoded ahead of the page: none is lost or doubled, and a run that nobody watches any more ends."""

from __future__ import annotations

import threading
from queue import SimpleQueue

import pytest

from components.server.ahead import Ahead

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


def asked_for(run, number):
    assert all(run.asked.acquire(timeout=PATIENCE) for _ in range(number))


def test_every_round_comes_once_in_order_and_the_run_is_closed():
    run = Handed(*range(100), None)
    batches = list(Ahead(run).batches(0))
    assert [round for batch in batches for round in batch] == list(range(100))
    assert all(batches)
    assert run.closed.wait(PATIENCE)


def test_rounds_wait_for_their_time_but_not_beyond_the_end():
    run = Handed(1)
    batches = Ahead(run).batches(3600)
    assert next(batches) == [1]  # whoever asked waits for this one most
    run.hand(2, 3, None)
    assert list(batches) == [[2, 3]]


def test_decoding_goes_on_while_a_batch_is_on_its_way():
    run = Handed(1)
    batches = Ahead(run).batches(0)
    assert next(batches) == [1]
    run.hand(2, 3)
    asked_for(run, 4)  # the fourth is asked for when the third is there
    assert next(batches) == [2, 3]
    run.hand(None)
    assert list(batches) == []


def test_an_error_comes_after_the_rounds_before_it():
    run = Handed(1)
    batches = Ahead(run).batches(3600)
    assert next(batches) == [1]
    run.hand(2, 3, ValueError("broken"))
    assert next(batches) == [2, 3]
    with pytest.raises(ValueError, match="broken"):
        next(batches)
    assert run.closed.is_set()


def test_a_run_without_rounds_has_no_batches():
    assert list(Ahead(Handed(None)).batches(0)) == []


def test_whoever_closes_does_not_wait_and_the_run_ends_with_its_round():
    run = Handed(1)
    ahead = Ahead(run)
    assert next(ahead.batches(0)) == [1]
    asked_for(run, 2)
    ahead.close()  # the second round is in progress
    assert not run.closed.is_set()
    run.hand(2, 3)
    assert run.closed.wait(PATIENCE)
    assert run.rounds.get(timeout=PATIENCE) == 3
