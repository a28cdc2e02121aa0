"""One model, many runs: rounds take turns, lines keep their order, and whoever leaves frees the place."""

import threading
import time
from functools import partial
from itertools import count
from types import SimpleNamespace

import pytest

from components.server import claims
from components.server import turns as page_turns
from components.server.claims import Claim, Model
from components.server.turns import Bounds, Turns, Visitor


def turns(**changes):
    bounds = Bounds(seats=8, waiting=64, of_address=64, of_tab=2)._replace(**changes)
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


def decode(queue, run, started=None, visitor=page_turns.NOBODY):
    with queue.seat(visitor) as seat:
        for _ in seat.wait(0.01):
            pass
        if started:
            started.wait()
        for _ in seat.turns(run):
            pass


def all_ask(queue):
    """Wait until every other run with a seat asks for the next turn, however late its thread comes to it."""
    while queue.model.num_waiting < queue.num_seated - 1:
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
            yield from seat.turns(run)

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
    in_threads([(list, other.turns(Steps("other", 3, told)))])
    assert len(told) == 6


def test_a_tab_has_a_few_runs_an_address_more_and_the_line_an_end():
    queue = turns(seats=1, waiting=4, of_address=3, of_tab=2)
    mine = [queue.seat(Visitor("a", "me")) for _ in range(2)]
    with pytest.raises(ValueError, match="2 of your runs wait or run already, and the limit here is 2"):
        queue.seat(Visitor("a", "me"))
    queue.seat(Visitor("a", "you"))
    with pytest.raises(ValueError, match="3 runs from your network wait or run already, which is the limit"):
        queue.seat(Visitor("a", "they"))
    for address in "bc":
        queue.seat(Visitor(address))
    with pytest.raises(ValueError, match="4 runs wait for the model already, which is the limit"):
        queue.seat(Visitor("d"))
    mine[1].__exit__()
    assert not queue.seat(Visitor("a", "me")).seated.is_set()


@pytest.mark.parametrize(("seats", "kept"), [(8, 2), (5, 1), (4, 1), (3, 0), (1, 0)])
def test_one_address_leaves_seats_to_others(seats, kept):
    queue = turns(seats=seats, of_address=99)
    flood = [queue.seat(Visitor("flood")) for _ in range(20)]
    assert sum(seat.seated.is_set() for seat in flood) == seats - kept
    for number in range(kept):
        assert queue.seat(Visitor(f"honest {number}")).seated.is_set()


def test_the_next_seat_is_of_the_address_with_the_fewest_and_then_of_the_one_that_had_least():
    queue = turns(seats=1)
    flood = [queue.seat(Visitor("flood", n // 2)) for n in range(6)]
    honest = [queue.seat(Visitor(name)) for name in ("one", "two")]
    assert [next(seat.wait()).number for seat in honest] == [1, 2]
    assert next(flood[1].wait()).number == 3
    queue.model.used(flood[0], 1.0)
    flood[0].__exit__()
    assert honest[0].seated.is_set()
    honest[0].__exit__()
    assert [honest[1].seated.is_set(), flood[1].seated.is_set()] == [True, False]


def test_a_class_behind_one_address_waits_in_line():
    queue = turns()
    students = [queue.seat(Visitor("school", number)) for number in range(40)]
    for student in students:
        list(student.wait())  # all have left before
        student.__exit__()
    assert queue.num_seated == queue.num_waiting == 0


def between_rounds_of_a_newcomer(queue, others=3):
    """Rounds of others, all of one address, between the first and the last of a newcomer's ten."""
    told, long_there, gone = [], threading.Event(), threading.Event()

    def flood():
        with queue.seat(Visitor("flood")) as seat:
            for _ in seat.turns(Steps("flood", 10_000, told)):
                if len(told) > 60:
                    long_there.set()
                if gone.is_set():
                    return

    def newcomer():
        long_there.wait(60)
        decode(queue, Steps("new", 10, told), visitor=Visitor("new"))
        gone.set()

    in_threads([*[(flood,)] * others, (newcomer,)])
    order = [line.split()[0] for line in told[::2]]
    first = order.index("new")
    return order[first : len(order) - order[::-1].index("new")].count("flood")


def test_a_newcomer_comes_before_an_address_that_had_the_model_for_long():
    assert between_rounds_of_a_newcomer(turns()) <= 1


def test_a_newcomer_is_ahead_for_no_more_than_its_credit(monkeypatch):
    monkeypatch.setattr(claims, "CREDIT", 0.0)
    monkeypatch.setattr(claims, "time", SimpleNamespace(monotonic=count().__next__))  # turns of equal length
    assert 4 <= between_rounds_of_a_newcomer(turns()) <= 20  # half of the rounds, though three run beside it


def test_addresses_that_left_are_forgotten():
    queue = turns()
    stays = queue.seat(Visitor("stays"))
    queue.model.used(stays, 100.0)
    for number in range(50):
        with queue.seat(Visitor(f"visitor {number}")) as seat:
            queue.model.used(seat, 0.01)
    assert queue.model.used_by(seat) > 0  # its address would come back with less than all others have
    queue.model.used(stays, 100.0)
    queue.seat(Visitor("another")).__exit__()
    assert queue.model.used_by(seat) == 0 < queue.model.used_by(stays)
    stays.__exit__()
    assert queue.model.used_by(stays) == 0


def test_many_runs_at_once_lose_no_turn():
    queue, told = turns(seats=5), []
    in_threads([(decode, queue, Steps(str(n), 10, told, lambda: time.sleep(0))) for n in range(30)])
    assert len(told) == 600
    assert all(told[i].replace("begins", "ends") == told[i + 1] for i in range(0, 600, 2))
    assert queue.num_seated == queue.num_waiting == 0


def test_a_measurement_takes_a_turn_for_each_of_its_steps():
    queue, told, started = turns(seats=2), [], threading.Barrier(2)

    def measuring():
        for _ in range(20):
            told.append("step")
            all_ask(queue)
            yield
        return "tree"

    def measure():
        with queue.seat(Visitor("new temperature")) as seat:
            started.wait(60)
            steps = seat.turns(measuring())
            while True:
                try:
                    next(steps)
                except StopIteration as end:
                    told.append(end.value)
                    return

    run = Steps("run", 40, told, partial(all_ask, queue))
    in_threads([(measure,), (decode, queue, run, started)])
    assert "tree" in told
    between = "".join(line[0] for line in told if line in ("step", "run begins"))
    assert "sssss" not in between  # whoever decodes is not held up by more than a few steps


def test_the_time_of_a_step_is_shared_by_its_runs_and_they_come_first_where_one_of_them_does():
    model = Model()
    line = Turns(lambda: Bounds(9, 9, 9, 9), model)
    few, many = line.seat(Visitor("few")), [line.seat(Visitor("many", n)) for n in range(3)]

    class Runs(Claim):
        shares = (few, *many)

    runs, check = Runs(model), line.seat(Visitor("check"))
    model.used(runs, 4.0)
    assert [seat.worked for seat in (few, *many)] == [1.0] * 4
    model.used(check, 2.0)
    assert [model.right(claim) for claim in (few, many[0], check, runs)] == [1.0, 3.0, 2.0, 1.0]
    assert model.right(Claim(model)) == 0.0
