"""Rooms: who may lead, answer and join, how often and for how long, and which data is kept."""

from __future__ import annotations

import asyncio
import tracemalloc
from types import SimpleNamespace

import pytest
from fastapi import HTTPException

from components.classroom import steps, views, web
from components.classroom.drafting import Drafting
from components.classroom.rooms import ALPHABET, LEFT, LENGTH, PRESENT, QUIET, Place, Rooms
from components.lessons import panel as lessons
from components.visitors import limits

HOME, OTHER = "192.0.2.1", "192.0.2.2"
FIRST = Place("trees", 1)
QUESTIONS = [
    pytest.param(Place(lesson["id"], step), question, id=f"{lesson['id']}-{step}")
    for lesson in lessons.lessons()
    for step, question in enumerate(lesson["questions"], start=1)
]


@pytest.fixture
def clock():
    """A clock that moves only when a test says so."""
    return SimpleNamespace(now=1000.0)


@pytest.fixture
def hall(clock):
    return Rooms(lambda: clock.now)


def refused(status, act, *arguments):
    with pytest.raises(HTTPException) as error:
        act(*arguments)
    assert error.value.status_code == status
    return error.value.detail


# ---------------------------------------------------------------- codes


def test_codes_are_clear_long_and_all_different(hall, bounds):
    bounds(rooms=100, rooms_per_address=100)
    codes = {hall.open(HOME).code for _ in range(100)}
    assert len(codes) == 100
    assert all(len(code) == LENGTH and set(code) <= set(ALPHABET) for code in codes)
    assert not set("0O1IB8S5Z2") & set(ALPHABET)
    # with all rooms open, the tries of one address find a room after more than five years on average
    tries = len(ALPHABET) ** LENGTH / limits.Limits().rooms
    assert tries > 5 * 365 * 24 * 3600 * limits.Limits().units_per_second / web._PRICES["join"]


def test_no_stranger_learns_whether_there_is_a_room(hall):
    room = hall.open(HOME)
    token = room.join()
    assert hall.known(room.code, token) is room
    assert refused(404, hall.known, room.code, "guessed") == refused(404, hall.known, "AAAAAAAA", "guessed")


# ---------------------------------------------------------------- beginning and end


def test_an_address_with_all_its_rooms_gives_up_the_emptiest(hall, bounds, clock):
    """A student opens all rooms of the school's address. That keeps no teacher out and closes no class."""
    bounds(rooms_per_address=3)
    taught = hall.open(HOME)
    for _ in range(2):
        taught.join()
    attacking = [hall.open(HOME) for _ in range(2)]
    for room in attacking:
        room.join()
    for _ in range(5):
        clock.now += 1
        attacking.append(hall.open(HOME))
    assert not taught.closed
    assert [room.closed for room in attacking] == [True, False, *[True] * 4, False]


def test_of_rooms_without_students_one_without_its_lecturer_is_closed_first(hall, bounds, clock):
    bounds(rooms_per_address=2)
    led, left = hall.open(HOME), hall.open(HOME)
    clock.now += 1
    views.view_of(led, led.key)
    hall.open(HOME)
    assert (led.closed, left.closed) == (False, True)


def test_where_all_rooms_are_taken_the_address_with_the_most_gives_one_up(hall, bounds):
    bounds(rooms=4)
    attacking = [hall.open(HOME) for _ in range(4)]
    attacking[0].join()
    for other in (OTHER, "192.0.2.3"):
        hall.open(other)
    assert [room.closed for room in attacking] == [False, True, True, False]
    # two rooms against one of this address: taking one would only swap the two addresses
    assert "All 4 rooms of this server are taken" in refused(429, hall.open, OTHER)


def test_where_all_rooms_are_taken_one_that_everybody_left_makes_way(hall, bounds, clock):
    bounds(rooms=3)
    led, attended, left = (hall.open(address) for address in (HOME, OTHER, "192.0.2.3"))
    token = attended.join()
    clock.now += LEFT - 1
    refused(429, hall.open, "192.0.2.4")
    views.view_of(led, led.key)
    views.view_of(attended, token)
    clock.now += 1
    hall.open("192.0.2.4")
    assert (led.closed, attended.closed, left.closed) == (False, False, True)
    refused(429, hall.open, "192.0.2.5")


def test_a_room_ends_after_two_quiet_hours_and_looking_on_is_quiet(hall, clock):
    room = hall.open(HOME)
    token = room.join()
    for _ in range(3):
        clock.now += QUIET - 1
        room.lead(FIRST)  # the lecturer has asked for something, so the room stays open
    for _ in range(10):
        clock.now += QUIET / 10 - 1
        views.view_of(room, token)
    clock.now += 10
    refused(404, hall.known, room.code, token)
    assert (len(hall), room.closed) == (0, True)
    assert "room is closed" in refused(410, views.view_of, room, token)


# ---------------------------------------------------------------- leading and answering


def test_an_answer_counts_once_while_its_question_is_open(hall):
    room = hall.open(HOME)
    one, other = room.join(), room.join()
    question = FIRST[:2]
    refused(409, room.answer, one, question, 0.0)  # the question has not been asked yet
    room.lead(FIRST)
    room.answer(one, question, 0.0)
    assert "already" in refused(409, room.answer, one, question, 1.0)
    refused(409, room.answer, other, ("trees", 2), 1.0)
    refused(403, room.answer, "somebody's", question, 1.0)
    room.lead(FIRST._replace(shown=True))
    refused(409, room.answer, other, question, 1.0)
    room.lead(FIRST)  # a question whose answer was shown stays closed
    assert room.place.shown
    refused(409, room.answer, other, question, 1.0)
    assert room.counts(question) == [(0.0, 1)]
    assert (room.answer_of(one, question), room.answer_of(other, question)) == (0.0, None)


def test_asked_again_a_question_forgets_its_answers_and_no_others(hall):
    room = hall.open(HOME)
    token = room.join()
    refused(409, room.ask_again)  # no question is shown
    for place in (FIRST, Place("trees", 2)):
        room.lead(place)
        refused(409, room.ask_again)  # the question is open
        room.answer(token, place[:2], 1.0)
        room.lead(place._replace(shown=True))
    room.ask_again()
    assert room.place == Place("trees", 2)
    assert [room.counts(question) for question in (room.place[:2], FIRST[:2])] == [[], [(1.0, 1)]]
    room.answer(token, ("trees", 2), 0.0)
    room.lead(FIRST)
    assert room.place.shown


def test_in_a_full_room_who_is_away_makes_way_and_those_without_an_answer_first(hall, bounds, clock):
    bounds(students_per_room=4)
    room = hall.open(HOME)
    stays, answers, proposes, silent = (room.join() for _ in range(4))
    room.lead(FIRST)
    room.answer(answers, FIRST[:2], 1.0)
    room.draft(Drafting("", [], 0))
    room.propose(proposes, 1, "word")
    clock.now += PRESENT
    room.student(stays)
    first = room.join()
    refused(403, room.student, silent)
    for token in (stays, answers, proposes, first):
        room.student(token)
    assert "4 students are here" in refused(429, room.join)
    assert room.counts(FIRST[:2]) == [(1.0, 1)]
    clock.now += PRESENT
    room.student(stays)
    later = [room.join() for _ in range(3)]
    # the answers were deleted with the students who gave them
    assert (room.counts(FIRST[:2]), room.drafting.proposed) == ([], {})
    room.lead(FIRST)
    for token in (stays, *later):
        room.answer(token, FIRST[:2], 2.0)
    assert room.counts(FIRST[:2]) == [(2.0, 4)]


def test_a_lecturer_clears_a_room_whose_places_are_held(hall, bounds):
    bounds(students_per_room=2)
    room = hall.open(HOME)
    room.lead(FIRST)
    tokens = [room.join() for _ in range(2)]
    for token in tokens:
        room.answer(token, FIRST[:2], 0.0)
    version = room.version
    room.clear()
    assert room.version > version  # the students' pages are notified
    assert (room.here, room.counts(FIRST[:2])) == (0, [])
    for token in tokens:
        assert "not in this room any more" in refused(404, hall.known, room.code, token)
        assert "not in this room any more" in refused(403, views.view_of, room, token)
    room.answer(room.join(), FIRST[:2], 1.0)
    assert room.counts(FIRST[:2]) == [(1.0, 1)]


def test_who_asked_lately_is_here(hall, clock):
    room = hall.open(HOME)
    stays, _ = room.join(), room.join()
    clock.now += 40
    room.student(stays)
    assert room.here == 2
    clock.now += 40
    assert room.here == 1


@pytest.mark.parametrize(("place", "question"), QUESTIONS)
def test_students_are_told_no_answer_before_it_is_shown(hall, place, question):
    room = hall.open(HOME)
    token = room.join()
    room.lead(steps.checked(place))
    right = question["answer"]
    closest = right if "choices" in question else _step_near(question, right)
    room.answer(token, place[:2], steps.check_answer(place, closest))
    view = views.view_of(room, token)
    assert view["question"].keys() <= {"choices", "range", "percent", "points"}
    assert "counts" not in view
    assert question["why"] not in str(view)
    room.lead(place._replace(shown=True))
    view = views.view_of(room, token)
    assert view["question"]["answer"] == right
    assert view["counts"] == [(view["mine"], 1)]


def _step_near(question, value):
    least, _, step = question["range"]
    return least + round((value - least) / step) * step


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (Place("nothing", 1), 0.0, "lesson = 'nothing' is not one of"),
        (Place("trees", 9), 0.0, "step = 9 is not a number from 0 to 4"),
        (Place("trees", 0), 0.0, "step 0 has no question"),
        (Place("trees", 1), 3.0, "value = 3 is not the number of a choice, from 0 to 2"),
        (Place("trees", 1), 0.5, "value = 0.5 is not the number of a choice"),
        (Place("trees", 3), 1.23, "value = 1.23 is not a number from 1 to 9 in steps of 0.1"),
        (Place("trees", 0, True), 0.0, "step 0 has no question"),
    ],
)
def test_what_no_slider_gives_is_told(place, value, message):
    with pytest.raises(ValueError, match=message):
        steps.check_answer(place, value)


# ---------------------------------------------------------------- waiting


def test_only_those_hear_who_have_something_new_to_see(hall):
    async def together():
        room = hall.open(HOME)
        one, _ = room.join(), room.join()
        room.lead(FIRST)
        lecturer, *students = [asyncio.create_task(room.news(leads, 60)) for leads in (True, False, False)]
        await asyncio.sleep(0.01)
        room.answer(one, FIRST[:2], 1.0)
        await asyncio.wait_for(lecturer, 5)
        assert not any(task.done() for task in students)
        room.lead(FIRST._replace(shown=True))
        await asyncio.wait_for(asyncio.gather(*students), 5)

    asyncio.run(together())


def test_who_hears_nothing_new_is_answered_after_a_while(hall):
    asyncio.run(asyncio.wait_for(hall.open(HOME).news(False, 0.01), 5))


# ---------------------------------------------------------------- memory


def test_a_full_room_with_every_question_answered_takes_less_than_a_megabyte(hall):
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    room = hall.open(HOME)
    tokens = [str(room.join()) for _ in range(200)]
    for place, question in (param.values for param in QUESTIONS):
        room.lead(place)
        for token in tokens:
            room.answer(token, place[:2], float(question.get("range", [1])[0]))
    num_bytes = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert num_bytes < 1_000_000, num_bytes
