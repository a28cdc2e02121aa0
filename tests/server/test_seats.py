"""One model, many runs: rounds take turns, waiting runs keep their order, and a visitor who leaves frees the
seat."""

import threading
import time

import pytest

from components.runs.queue import Queue
from components.runs.seats import Bounds, Line


def line(**changes):
    bounds = Bounds(seats=8, waiting=64, of_address=64)._replace(**changes)
    return Line(lambda: bounds, Queue())


def places(*seats):
    """The number and the length of the line for these waiting seats."""
    return [(place.number, place.of) for place in (next(seat.wait()) for seat in seats)]


def test_places_count_down_in_order_and_whoever_leaves_the_line_moves_the_others_up():
    queue = line(seats=1)
    first, second, third, last = (queue.seat() for _ in range(4))
    assert first.seated.is_set()
    assert places(second, third, last) == [(1, 3), (2, 3), (3, 3)]
    second.__exit__()
    assert places(third, last) == [(1, 2), (2, 2)]
    first.__exit__()
    assert third.seated.is_set()
    assert list(third.wait()) == []
    assert places(last) == [(1, 1)]
    for seat in (third, last):
        seat.__exit__()
    assert queue.num_seated == queue.num_waiting == 0


def test_the_time_of_a_wait_comes_from_runs_that_ended():
    queue = line(seats=1)
    with queue.seat() as seat:
        second = queue.seat()
        assert next(second.wait()).seconds is None
        before = time.monotonic()
        seat.do(time.sleep(0.05) for _ in range(1)).wait()
        most = time.monotonic() - before
    third, fourth = queue.seat(), queue.seat()
    one, two = next(third.wait()).seconds, next(fourth.wait()).seconds
    assert 0.05 <= one <= most
    assert two == pytest.approx(2 * one, rel=0.01)


def test_reports_come_at_intervals_until_the_seat_is_free():
    queue = line(seats=1)
    first, second = queue.seat(), queue.seat()
    start, reports = time.monotonic(), second.wait(every=0.1)
    assert [next(reports).number for _ in range(3)] == [1, 1, 1]
    assert time.monotonic() - start >= 0.2
    first.__exit__()
    assert list(reports) == []


def test_whoever_waits_hears_of_the_free_seat_at_once():
    queue = line(seats=1)
    first, second = queue.seat(), queue.seat()
    threading.Timer(0.05, first.__exit__).start()
    start = time.monotonic()
    assert len(list(second.wait(every=600))) <= 1  # there is no wait if the seat was already free
    assert time.monotonic() - start < 60


def test_an_address_has_a_few_runs_and_the_line_an_end():
    queue = line(seats=1, waiting=4, of_address=3)
    mine = [queue.seat("a") for _ in range(3)]
    with pytest.raises(ValueError, match="3 runs from your network wait or run already, which is the limit"):
        queue.seat("a")
    for address in "bc":
        queue.seat(address)
    with pytest.raises(ValueError, match="4 runs wait for the model already, which is the limit"):
        queue.seat("d")
    mine[1].__exit__()
    assert not queue.seat("a").seated.is_set()


@pytest.mark.parametrize(("seats", "reserve"), [(8, 2), (5, 1), (4, 1), (3, 0), (1, 0)])
def test_one_address_leaves_seats_to_others(seats, reserve):
    queue = line(seats=seats, of_address=99)
    flood = [queue.seat("flood") for _ in range(20)]
    assert sum(seat.seated.is_set() for seat in flood) == seats - reserve
    for number in range(reserve):
        assert queue.seat(f"honest {number}").seated.is_set()


def test_the_next_seat_is_of_the_address_with_the_fewest_and_then_of_the_one_that_had_least():
    queue = line(seats=1)
    flood = [queue.seat("flood") for _ in range(6)]
    honest = [queue.seat(name) for name in ("one", "two")]
    assert places(*honest, flood[1]) == [(1, 7), (2, 7), (3, 7)]
    queue.queue._paid["flood"] = 100.0
    flood[0].__exit__()
    assert honest[0].seated.is_set()
    honest[0].__exit__()
    assert [honest[1].seated.is_set(), flood[1].seated.is_set()] == [True, False]
