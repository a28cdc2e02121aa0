"""Classes at once on a server that nobody has visited before: all press Generate, and 200 follow a lesson.

The bounds are for a machine on which other tests run. `python -m tests.stress.load --cold` and `python -m
tests.stress.classroom` measure a quiet one, where the slowest of 40 waits less than 3 seconds.
"""

import asyncio

import pytest

from tests.stress import classroom, load
from tests.stress.visitors import Site, serving

SECONDS = 20.0


@pytest.fixture(scope="module")
def site():
    with serving() as (address, _):
        yield Site(address)


def test_forty_students_who_press_at_once_on_a_fresh_server_all_see_a_token_soon(site):
    visits, _ = asyncio.run(load.together(site, generating=40, replaying=0, length=8, cold=True))
    assert [visit.failure for visit in visits if visit.failure] == []
    assert [len(visit.token_ids) for visit in visits] == [8] * 40
    waits = sorted(visit.first_token_seconds for visit in visits)
    assert waits[-1] < SECONDS, waits
    assert waits[-1] < 3 * waits[20] + 1, "no student waits for the others"


def test_two_hundred_students_behind_one_router_get_each_question_and_all_answers_count(site):
    taught = asyncio.run(classroom.taught(site.address, 200, classroom.STEPS[:1]))
    assert (taught["answers"], taught["refused"]) == (200, [])
    assert taught["seconds_to_all"]["slowest"] < SECONDS
