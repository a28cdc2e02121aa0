"""Many visitors at once, classes, and bad requests: short runs of the stress commands against one server.

The server was started with `--share`. Gradio's tunnel is simulated: its visitors come from this machine.

The bounds are for a machine on which other tests run. `python -m tests.stress.load --cold` and `python -m
tests.stress.classroom` measure a quiet one, where the slowest of 40 waits less than 3 seconds.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import httpx
import pytest

from tests.helpers.servers import raw
from tests.stress import classroom, fuzz, load, presses, soak
from tests.stress.visitors import ROOT, Site, client, serving, stream

SECONDS = 20.0
NAME = "simulated.gradio.live"
APP = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from gradio import networking
networking.setup_tunnel = lambda *_, **__: "https://{NAME}"
import app
app.main()
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    shared = tmp_path_factory.mktemp("app") / "shared.py"
    shared.write_text(APP)
    with serving("--share", "--request-seconds", "3", app=shared) as (address, process):
        site = Site(address)
        site.process = process
        yield site


def visiting(site, visit):
    async def visited():
        async with client(site.address) as http:
            return await visit(http)

    return asyncio.run(visited())


# ---------------------------------------------------------------- many visitors


def test_forty_students_who_press_at_once_on_a_fresh_server_all_see_a_token_soon(site):
    """It must be the first test of this server."""
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


def test_visitors_at_once_get_the_text_of_a_run_alone_and_one_that_differs_is_found(site, pair):
    visits, replays = asyncio.run(load.together(site, generating=4, replaying=3, length=24))
    report = load.report(visits, replays, pair)
    assert (report["failures"], report["different"]) == ([], [])
    assert (report["tokens"], len(replays)) == (4 * 24, 3)
    visits[1].updates[-1]["rounds"].append({"tokens": [{"id": 1}]})
    assert load.report(visits, [], pair)["different"] == [1]


def test_presses_have_the_speed_that_the_page_shows(site):
    [visit] = asyncio.run(presses.presses(site, 1, ["Once upon a time", "A cat"], 0))
    assert visit.setup["prompt"] == "A cat", "the first press is not counted"
    report = presses.report([visit])
    assert report["target"] == "stories/target"
    assert 0.2 < report["least"] == report["median"] < 5
    visit.updates[-1]["timings"] = [{"run": [1.0, 1.0], "plain": [1.0] * 4}] * 3
    assert presses.speed(visit) == len(visit.token_ids) / 2


def test_visitors_for_a_while(site, pair):
    report = asyncio.run(soak.soak(site, site.process, pair, minutes=0.08, pause=0.2))
    assert sum(report["done"].values()) >= 3
    assert (report["failures"], report["different"], report["faults"]) == ([], 0, [])
    assert report["megabytes"]
    samples = [(minute, 500 + (50 if minute > 2 else 0) + 3 * minute) for minute in range(10)]
    assert soak.growth(samples) == pytest.approx(3), "the slope of the second half"


def test_a_shared_page_decodes_and_loads_nothing_without_the_key(site):
    own = {"host": NAME, "origin": f"https://{NAME}", "x-forwarded-for": "8.8.4.4"}

    async def visit(http):
        http.headers.update(own)
        load = [message async for message in stream(http, "load_pair", {"pair": "stories"})]
        return await site.generate(http, length=8), load

    run, load = visiting(site, visit)
    assert (run.failure, len(run.token_ids)) == ("", 8)
    assert "The key is not the one" in load[0][1]
    foreign = own | {"origin": "https://evil.example"}
    assert httpx.post(f"{site.address}/ask/models/state", json=None, headers=foreign).status_code == 403
    assert httpx.get(site.address, headers=own).status_code == 200


# ---------------------------------------------------------------- bad requests


def test_bad_requests_show_no_internals_and_leave_the_server_whole(site, pair):
    report = asyncio.run(fuzz.fuzz(site, requests=120, seed=1))
    assert report.faults == []
    assert report.sent.total() >= 120
    assert {*report.sent} == {*fuzz.STREAMS, "question", "positional"}
    assert asyncio.run(fuzz.generates(site, pair))


@pytest.mark.parametrize(
    ("status", "text", "faults"),
    [
        ("200", '{"error": "k = 5"}', 0),
        ("500", "Internal Server Error", 1),
        ("200", '{"detail": "KeyError: 4"}', 1),
        ("200", "Traceback (most", 1),
        ("200", 'File "/srv/app.py", line 3', 1),
    ],
)
def test_failures_and_internals_are_recognised(status, text, faults):
    report = fuzz.Found()
    report.judge("server function", status, text, {})
    assert len(report.faults) == faults


def test_no_stream_breaks_off_at_half_a_character(site):
    async def ends(http, name, values):
        return [kind async for kind, _ in stream(http, name, values)][-1]

    async def visit(http):
        half = dict.fromkeys(site.defaults, "�")
        runs = ends(http, "decode", half), ends(http, "compare", {"asked": {"prompt": "\ud800"}})
        return await asyncio.gather(*runs, ends(http, "check_losslessness", {"draft": "\ud800"}))

    assert set(visiting(site, visit)) == {"complete"}


PRIVATE = [
    *("app.py", ".git/config", "assets", "assets/shared"),
    *("assets/results/load.json", "assets/stories/target/config.json"),
]
PATHS = [
    *("/etc/passwd", "../app.py", "app.py", "/proc/self/environ", "\x00", "a" * 5000),
    *("http://127.0.0.1:1/x", "file:///etc/passwd", "", "results", "stories/target/config.json"),
    *(str(ROOT / path) for path in PRIVATE),
    *(f"{ROOT}/assets/shared/../../{path}" for path in PRIVATE),
    *(f"{ROOT}/assets/shared/%2e%2e/%2e%2e/{path}" for path in PRIVATE),
    *(f"{ROOT}/{path}\x00.js" for path in PRIVATE),
]


def test_nothing_but_the_pages_own_files_is_served(site):
    async def visit(http):
        begins = ("/gradio_api/file=", "/files/")
        paths = [*map(quote, PATHS), "%2e%2e/app.py", "v000000000000/%2e%2e/%2e%2e/app.py"]
        return [await http.get(begin + path) for path in paths for begin in begins]

    for answer in visiting(site, visit):
        assert (answer.status_code, "location" in answer.headers) == (404, False), answer.url


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"{", b"\xff\xfe", b"[" * 20_000, b"null", b"9" * 5000, b"NaN", b"1e999"),
        *(b'"\\ud800"', b'["\\udfff"]', b'{"data": "\\ud800"}'),
    ],
    ids=lambda body: repr(body)[:20],
)
def test_a_body_that_is_no_request_is_refused_in_words(site, body):
    async def visit(http):
        headers = {"content-type": "application/json"}
        paths = [f"/gradio_api/{path}" for path in ("queue/join", "call/decode", "call/v2/decode", "cancel")]
        return [await http.post(path, content=body, headers=headers) for path in [*paths, "/class/answer"]]

    for answer in visiting(site, visit):
        assert answer.status_code in (400, 422), answer.url
        assert answer.json()["detail"]
        assert not fuzz.INTERNALS.search(answer.text)


def test_a_body_that_is_too_large_or_does_not_end_is_refused_by_every_app(site):
    def refused(path):
        headers = {"content-type": "application/json"}
        large = httpx.post(f"{site.address}/{path}", content=b" " * 250_001, headers=headers)
        assert (large.status_code, "Content Too Large" in large.text) == (413, True)
        head = f"POST /{path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        head += "Connection: close\r\n"
        answer = raw(site.address, head, "Content-Length: 9\r\n\r\n", "{")
        assert answer.startswith(b"HTTP/1.1 408")
        assert b"did not arrive within 3 seconds" in answer
        # its last byte is one too many: a server that closes before it read all can lose its answer
        chunk = f"{250_001:x}\r\n" + " " * 250_001
        answer = raw(site.address, head, "Transfer-Encoding: chunked\r\n\r\n", chunk)
        assert answer.startswith(b"HTTP/1.1 413"), "a body without end is not read to its end"

    with ThreadPoolExecutor() as threads:  # each waits for the end of its time
        list(threads.map(refused, ("gradio_api/queue/join", "ask/models/state", "class/step")))
