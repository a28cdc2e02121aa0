"""One model, many runs: rounds take turns, lines keep their order, and whoever leaves frees the place."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from functools import partial

import pytest

from components import limits
from components.turns import Turns


def turns(**changes):
    bounds = replace(limits.Limits(), **changes)
    return Turns(lambda: bounds)


class Steps:
    """A run whose rounds note who ran, and that nobody else did meanwhile."""

    def __init__(self, name, rounds, told, meanwhile=lambda: time.sleep(0.002)):
        self.name, self.left, self.told, self.meanwhile = name, rounds, told, meanwhile
        self.closed = False

    def __iter__(self):
        return self

    def __next__(self):
        if self.left == 0:
            raise StopIteration
        self.left -= 1
        self.told.append(f"{self.name} begins")
        self.meanwhile()
        self.told.append(f"{self.name} ends")
        return self.left

    def close(self):
        self.closed = True


def decode(queue, run, started=None):
    with queue.seat() as seat:
        for _ in seat.wait(0.01):
            pass
        if started:
            started.wait()
        for _ in seat.rounds(run):
            pass


def all_ask(queue):
    """Wait until every other run with a seat asks for the next turn, however late its thread comes to it."""
    while len(queue._asking) < queue.num_seated - 1:
        time.sleep(0.001)


def in_threads(work):
    threads = [threading.Thread(target=call, args=arguments) for call, *arguments in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)


def test_only_one_round_runs_at_a_time_and_seated_runs_take_turns():
    queue, told, started = turns(seats=3), [], threading.Barrier(3)
    meanwhile = partial(all_ask, queue)
    in_threads([(decode, queue, Steps(name, 20, told, meanwhile), started) for name in "abc"])
    assert all(told[i].replace("begins", "ends") == told[i + 1] for i in range(0, len(told), 2))
    order = [line[0] for line in told[::2]]
    middle = order[6:45]
    assert all(set(middle[i : i + 3]) == set("abc") for i in range(len(middle) - 2))


def test_a_short_run_does_not_wait_for_a_long_one():
    queue, told, started = turns(seats=2), [], threading.Barrier(2)
    runs = [Steps(*run, told, partial(all_ask, queue)) for run in [("long", 60), ("short", 5)]]
    in_threads([(decode, queue, run, started) for run in runs])
    assert told.index("short ends") < 60
    assert told[::-1].index("short ends") > 60  # most of the long one comes after it


def test_places_count_down_and_the_line_keeps_its_order():
    queue = turns(seats=1)
    first, second, third = (queue.seat() for _ in range(3))
    assert first.seated.is_set()
    assert [(p.number, p.of) for p in (next(second.wait()), next(third.wait()))] == [(1, 2), (2, 2)]
    first.__exit__()
    assert second.seated.is_set()
    assert list(second.wait()) == []
    place = next(third.wait())
    assert (place.number, place.of) == (1, 1)


def test_whoever_leaves_the_line_moves_the_others_up():
    queue = turns(seats=1)
    first, second, third = (queue.seat() for _ in range(3))
    second.__exit__()
    assert next(third.wait()).number == 1
    first.__exit__()
    assert third.seated.is_set()
    third.__exit__()
    assert queue.num_seated == queue.num_waiting == 0


def test_the_time_of_a_wait_comes_from_runs_that_ended():
    queue = turns(seats=1)
    with queue.seat() as seat:
        second = queue.seat()
        assert next(second.wait()).seconds is None
        before = time.monotonic()
        with seat.turn():
            time.sleep(0.05)
        most = time.monotonic() - before
    third, fourth = queue.seat(), queue.seat()
    one, two = next(third.wait()).seconds, next(fourth.wait()).seconds
    assert 0.05 <= one <= most
    assert two == pytest.approx(2 * one, rel=0.01)


def test_reports_come_at_intervals_until_the_seat_is_free():
    queue = turns(seats=1)
    first, second = queue.seat(), queue.seat()
    start, reports = time.monotonic(), second.wait(every=0.1)
    assert [next(reports).number for _ in range(3)] == [1, 1, 1]
    assert time.monotonic() - start >= 0.2
    first.__exit__()
    assert list(reports) == []


def test_whoever_waits_hears_of_the_free_seat_at_once():
    queue = turns(seats=1)
    first, second = queue.seat(), queue.seat()
    threading.Timer(0.05, first.__exit__).start()
    start = time.monotonic()
    assert len(list(second.wait(every=600))) <= 1  # none where the seat was free before it asked
    assert time.monotonic() - start < 60


def test_a_stopped_run_frees_the_model_within_a_round():
    queue, told = turns(seats=1), []
    run = Steps("a", 1000, told)

    def visit():
        with queue.seat() as seat:
            yield from seat.rounds(run)

    updates = visit()
    next(updates)
    updates.close()
    assert run.closed
    assert told == ["a begins", "a ends"]
    assert queue.num_seated == 0


def test_a_round_that_fails_passes_the_model_on():
    queue = turns(seats=2)
    one, other = queue.seat(), queue.seat()
    with pytest.raises(MemoryError), one.turn():
        raise MemoryError
    told = []
    in_threads([(list, other.rounds(Steps("other", 3, told)))])
    assert len(told) == 6


def test_a_visitor_has_a_few_runs_and_the_line_an_end():
    queue = turns(seats=1, waiting=2, runs_per_visitor=2)
    mine = [queue.seat("me"), queue.seat("me")]
    with pytest.raises(ValueError, match="2 of your runs wait or run already, and the limit here is 2"):
        queue.seat("me")
    queue.seat("you")
    with pytest.raises(ValueError, match="2 runs wait for the model already, which is the limit"):
        queue.seat("they")
    mine[1].__exit__()
    assert not queue.seat("me").seated.is_set()


def test_many_runs_at_once_lose_no_turn():
    queue, told = turns(seats=5), []
    in_threads([(decode, queue, Steps(str(n), 10, told, lambda: time.sleep(0))) for n in range(30)])
    assert len(told) == 600
    assert all(told[i].replace("begins", "ends") == told[i + 1] for i in range(0, 600, 2))
    assert queue.num_seated == queue.num_waiting == 0
