"""Short runs of the stress commands against one server with a single seat."""

import asyncio

import pytest

from tests.stress import fuzz, load
from tests.stress.visitors import Site, client, serving, stream


@pytest.fixture(scope="module")
def site():
    with serving("--seats", "1", "--waiting", "3", "--new-tokens", "300") as (address, _):
        yield Site(address)


def visiting(site, visit):
    async def visited():
        async with client(site.address) as http:
            return await visit(http)

    return asyncio.run(visited())


def test_visitors_at_once_see_their_place_and_get_the_text_of_a_run_alone(site, pair):
    """As many runs of one address as there are places: one has a seat and three wait."""
    visits, replays = asyncio.run(load.together(site, generating=4, replaying=3, length=60))
    report = load.report(visits, replays, pair)
    assert (report["failures"], report["different"]) == ([], [])
    assert report["tokens"] == 4 * 60
    assert report["told_a_place"] == 3
    assert len(replays) == 3


def test_a_full_line_is_told_and_places_count_down(site):
    async def visit(http):
        return await asyncio.gather(*(site.generate(http, max_new_tokens=300, seed=i) for i in range(6)))

    visits = visiting(site, visit)
    failures = [visit.failure for visit in visits if visit.failure]
    assert len(failures) == 2
    assert all("3 runs wait for the model already, which is the limit" in text for text in failures)
    last = max((visit for visit in visits if visit.places), key=lambda visit: len(visit.places))
    numbers = [place["number"] for place in last.places]
    assert numbers == sorted(numbers, reverse=True)
    assert all(place["of"] <= 3 for place in last.places)


def test_bad_requests_show_no_internals_and_leave_the_server_whole(site, pair):
    found = asyncio.run(fuzz.fuzz(site, requests=200, seed=1))
    assert found.faults == []
    assert found.sent.total() >= 200
    assert {*found.sent} == {*fuzz.STREAMS, "question", "positional", "file", "raw"}
    assert asyncio.run(fuzz.generates(site, pair))


def test_no_stream_breaks_off_at_half_a_character(site):
    async def ends(http, name, values):
        return [kind async for kind, _ in stream(http, name, values)][-1]

    async def visit(http):
        half = dict.fromkeys(site.defaults, "�")
        runs = ends(http, "decode", half), ends(http, "compare", {"asked": {"prompt": "\ud800"}})
        return await asyncio.gather(*runs, ends(http, "check_losslessness", {"draft": "\ud800"}))

    assert set(visiting(site, visit)) == {"complete"}


def test_failures_and_internals_are_recognised():
    found = fuzz.Found()
    found.judge("question", "200", '{"error": "k = 5"}', {})
    assert found.faults == []
    for text in ('{"detail": "KeyError: 4"}', "Traceback (most", 'File "/srv/app.py", line 3'):
        found.judge("question", "200", text, {})
    found.judge("question", "500", "Internal Server Error", {})
    assert len(found.faults) == 4


def test_nothing_but_the_pages_own_files_is_served(site):
    async def visit(http):
        paths = [path for path in fuzz.PATHS if not path.startswith("a" * 9)]
        begins = ("/gradio_api/file=", "/files/")
        return [await http.get(f"{begin}{fuzz.quote(path)}") for path in paths for begin in begins]

    for answer in visiting(site, visit):
        assert (answer.status_code, "location" in answer.headers) == (404, False), answer.url


@pytest.mark.parametrize(
    "body", [b'"\\ud800"', b"NaN", b'["\\udfff"]', b'{"data": "\\ud800"}', b"1e999", b"null"]
)
def test_a_request_that_can_not_be_repeated_is_refused_in_words(site, body):
    async def visit(http):
        headers = {"content-type": "application/json"}
        paths = ("queue/join", "call/decode", "call/v2/decode", "cancel")
        return [await http.post(f"/gradio_api/{path}", content=body, headers=headers) for path in paths]

    answers = visiting(site, visit)
    assert {answer.status_code for answer in answers} <= {400, 422}
    assert all(answer.json()["detail"] for answer in answers)
