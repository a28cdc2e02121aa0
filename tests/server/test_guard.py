"""The conditions that a request must meet before it reaches the app: name, route, sender, and limits of its
body."""

import asyncio
import gzip
import logging
import os
import re
import time
from types import SimpleNamespace
from unittest.mock import AsyncMock

import httpx
import pytest
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response

from components.guard import buckets, guard, hosts, routes
from components.guard.buckets import Buckets
from components.page.assets import ASSETS, PLOTLY
from components.server import options
from components.visitors import addresses, limits
from tests.helpers.servers import raw
from tests.stress.visitors import ROOT


def get(url, path, **headers):
    return httpx.get(f"{url}{path}", headers=headers, timeout=30)


# ---------------------------------------------------------------- routes

UNUSED = [
    *("GET /gradio_api/deep_link?session_hash=a", "POST /gradio_api/upload", "GET /gradio_api/openapi.json"),
    *("GET /docs", "GET /gradio_api/file=http://127.0.0.1:1/x", "GET /gradio_api/file/etc/passwd"),
    *("GET /monitoring", "POST /login", "POST /gradio_api/stream/1", "POST /gradio_api/run/generate"),
    *("GET /gradio_api/mcp", "POST /gradio_api/api/generate", "GET //", "DELETE /config", "POST /"),
    *("GET /gradio_api/heartbeat/" + "a" * 65, "GET /assets/../theme.css"),
]


@pytest.mark.parametrize("request_line", UNUSED)
def test_what_the_page_does_not_use_is_not_there(url, request_line):
    method, path = request_line.split()
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    answer = raw(url, head)
    assert answer.startswith(b"HTTP/1.1 404"), answer[:80]
    assert answer.endswith(b'{"detail":"there is nothing at this address"}')


def test_every_route_of_the_list_is_one_that_gradio_has_or_ours(url):
    lines = [
        *("GET /", "GET /config", "GET /gradio_api/info", "GET /gradio_api/startup-events"),
        *("GET /files/main.js", "GET /gradio_api/app_id", "GET /gradio_api/queue/status"),
        *("POST /gradio_api/queue/join", "POST /gradio_api/cancel", "POST /gradio_api/reset"),
        *("POST /gradio_api/call/decode", "POST /gradio_api/call/v2/decode", "POST /ask/models/state"),
    ]
    for line in lines:
        method, path = line.split()
        answer = httpx.request(method, url + path, json={}, timeout=30)
        assert answer.status_code == 200 if method == "GET" else answer.status_code not in (404, 405), line
    paths = [*(line.split()[1] for line in lines), "/gradio_api/queue/data", "/gradio_api/call/decode/a"]
    # this project's code answers the routes that this process has added
    patterns = [route.path for route in routes.ROUTES if not route.answers]
    assert [path.pattern for path in patterns if not any(map(path.fullmatch, paths))] == []


LONG = "/a" * 3_000


@pytest.mark.parametrize(
    ("path", "status"),
    [(f"/?prompt={'x' * 20_000}", 200), (f"/static{LONG}", 404), (f"/files{LONG}", 404), (LONG, 404)],
)
def test_an_address_may_hold_a_set_up_and_a_long_one_of_nothing_is_answered(url, path, status):
    assert get(url, path).status_code == status


# ---------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("host", "status"),
    [
        *(("127.0.0.1:1", 200), ("localhost", 200), ("[::1]:7860", 200), ("192.168.1.7", 200)),
        *(("page.localhost", 200), ("LOCALHOST:80", 200), ("localhost.", 200), ("evil.example", 421)),
        *(("127.0.0.1.evil.example:7860", 421), ("localhost.evil.example", 421), ("1e1", 421)),
        *(("1.2.3.4.5", 421), ("999", 421), ("[1:2]", 421)),
        *(("a b", 421), ('"', 421), ("[::1", 421), ("a" * 500, 421), ("localhost/127.0.0.1", 421), ("", 421)),
    ],
)
def test_only_known_names_are_answered(url, host, status):
    for path in ("/", "/gradio_api/queue/status", "/gradio_api/nothing"):
        answer = raw(url, f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
        expected = 404 if status == 200 and "nothing" in path else status
        assert answer.startswith(f"HTTP/1.1 {expected}".encode()), answer[:80]


def test_names_can_be_stated_and_behind_a_proxy_any_is_taken(monkeypatch):
    settings = SimpleNamespace(names="page.example.org, other.example:80", host="box.example")
    names = options.names(settings, {"SPACE_HOST": "someone-space.hf.space"})
    assert names == {"page.example.org", "other.example", "box.example", "someone-space.hf.space"}
    monkeypatch.setattr(hosts, "_names", names)
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "")
    assert all(map(hosts.known, names))
    assert not hosts.known("evil.example")
    addresses.trust("127.0.0.1")
    assert hosts.known("evil.example")


def test_a_stated_name_that_is_none_is_told():
    with pytest.raises(ValueError, match="names = 'http://page' is not a name"):
        options.names(SimpleNamespace(names="http://page", host=None), {})


# ---------------------------------------------------------------- senders

CROSS = [
    {"sec-fetch-site": "cross-site"},
    {"origin": "https://evil.example"},
    {"origin": "null"},
    {"origin": ""},
    {"origin": "http://localhost:1", "sec-fetch-site": "same-site"},
    {"origin": "https://evil.example", "x-forwarded-host": "page.example.org"},
    {"origin": "http://127.0.0.1:1"},
    {"origin": "http://localhost.evil.example", "host": "localhost"},
    {"origin": "http://localhost:1", "host": "localhost", "sec-fetch-site": "same-site"},
]


@pytest.mark.parametrize("headers", CROSS)
@pytest.mark.parametrize("path", ["/gradio_api/queue/join", "/ask/models/state", "/class/open"])
def test_a_strangers_page_cannot_send_anything(url, path, headers):
    answer = httpx.post(url + path, content="{}", headers={"content-type": "application/json"} | headers)
    assert (answer.status_code, "own page" in answer.text) == (403, True)
    detail = answer.json()["detail"]
    assert all(value in detail for value in headers.values()), "the answer says what was compared"


def test_a_page_whose_foreign_name_leads_to_this_server_cannot_send_anything(url):
    stranger = {"origin": "http://evil.example", "host": "evil.example"}
    assert httpx.post(f"{url}/gradio_api/queue/join", json={}, headers=stranger).status_code == 421


@pytest.mark.parametrize("kind", [None, "text/plain", "multipart/form-data", "application/jsonx"])
@pytest.mark.parametrize("path", ["/gradio_api/queue/join", "/gradio_api/cancel", "/class/open"])
def test_what_a_form_could_send_is_refused(url, path, kind):
    answer = httpx.post(url + path, content="{}", headers={"content-type": kind} if kind else {})
    assert answer.status_code == 415


OWN = {
    "a program": {},
    "behind a proxy": {"sec-fetch-site": "same-origin", "origin": "https://some-space.hf.space"},
    "a browser without encryption": {"origin": "http://localhost:99", "host": "localhost:99"},
    "a number": {"origin": "http://[::1]:99", "host": "[::1]:99"},
    "a proxy without a port": {"origin": "http://localhost:99", "host": "localhost"},
    "forwarded": {"origin": "https://page.example.org", "x-forwarded-host": "page.example.org"},
    "forwarded without a port": {
        "origin": "http://page.example.org:8080",
        "x-forwarded-host": "page.example.org",
    },
    "charset": {"content-type": "application/json; charset=utf-8"},
}


@pytest.mark.parametrize("headers", OWN.values(), ids=OWN)
def test_the_own_page_can(url, headers):
    all_headers = {"content-type": "application/json"} | headers
    assert httpx.post(f"{url}/class/join", content='{"room": "A"}', headers=all_headers).status_code == 404


# ---------------------------------------------------------------- heads of answers


def policy_of(answer):
    return dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))


@pytest.mark.parametrize("path", ["/", "/?trace=wide-tree", "/class", "/embed", "/embed?trace=opening"])
def test_pages_say_who_may_frame_them_and_what_they_may_load(url, path):
    """Only the embedded run may be shown in any frame, and no page compiles texts."""
    policy = policy_of(get(url, path))
    assert policy.pop("frame-ancestors") == ("* file:" if path.startswith("/embed") else "'self'")
    assert policy["default-src"] == policy["base-uri"] == policy["form-action"] == "'self'"
    assert policy["object-src"] == "'none'"
    assert not re.search("http|unsafe-eval", " ".join(policy.values()))


def test_a_space_is_shown_in_the_hubs_frames(monkeypatch):
    monkeypatch.setenv("SPACE_ID", "someone/decoding")
    page = asyncio.run(fetch(guard.Guard(HTMLResponse("x")), "/"))
    assert policy_of(page)["frame-ancestors"] == f"'self' {guard.HUB}"


def test_the_messages_of_a_run_pass_a_proxy_at_once():
    answer = Response("x", media_type="text/event-stream")
    stream = asyncio.run(fetch(guard.Guard(answer), "/gradio_api/queue/data"))
    assert stream.headers["x-accel-buffering"] == "no"


# ---------------------------------------------------------------- bodies


def received(messages, pauses):
    """What comes within the limit of 0.2 seconds for a body. pauses: the seconds before each message."""
    coming = iter(zip(pauses, messages))

    async def receive():
        pause, message = next(coming)
        await asyncio.sleep(pause)
        return message

    async def read():
        bound = guard._with_deadline(0.2, receive)
        return [await bound() for _ in pauses]

    return asyncio.run(read())


@pytest.mark.parametrize("pauses", [[5], [0.01] * 50], ids=["does not come", "trickles"])
def test_a_body_that_does_not_come_or_trickles_is_given_up(pauses):
    with pytest.raises(HTTPException, match=r"within 0\.2 seconds") as refused:
        received([{"body": b"x", "more_body": True}] * 50, pauses)
    assert refused.value.status_code == 408


def test_a_listener_may_wait_longer_than_its_body_may_take():
    messages = [{"type": "http.request"}, {"type": "http.disconnect"}]
    assert received(messages, [0, 0.3]) == messages


# ---------------------------------------------------------------- work


def at(monkeypatch):
    """A clock that stands still until its first entry is changed."""
    now = [0.0]
    monkeypatch.setattr(buckets, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


def test_an_address_may_come_all_at_once_and_then_at_its_pace(monkeypatch):
    now, buckets = at(monkeypatch), Buckets(1000, 100)
    assert [buckets.take("a", 200) for _ in range(5)] == [0.0] * 5
    assert buckets.take("a", 200) == pytest.approx(2)
    assert buckets.take("b", 200) == 0
    now[0] += 2
    assert buckets.take("a", 100) == pytest.approx(1)
    now[0] += 1000
    assert [buckets.take("a", 500) for _ in range(3)] == pytest.approx([0, 0, 5])


def test_who_asks_far_too_much_is_refused_and_soon_welcome_again(monkeypatch):
    now, limiter = at(monkeypatch), Buckets(100, 100)
    for _ in range(100):
        limiter.take("a", 500)
    with pytest.raises(HTTPException, match="too many requests from your address") as refused:
        asyncio.run(limiter.wait("a", 1))
    assert refused.value.status_code == 429
    now[0] += 2 * buckets.LONGEST + 0.1
    asyncio.run(limiter.wait("a", 1))


def test_whoever_is_a_little_too_fast_waits():
    buckets = Buckets(10, 100)
    start = time.monotonic()
    asyncio.run(buckets.wait("a", 30))
    assert time.monotonic() - start > 0.15


def test_buckets_of_invented_addresses_are_forgotten():
    limiter = Buckets(10, 1)
    limiter.take("early", 10**9)
    assert limiter.take("early", 0) > 0
    for number in range(buckets.ADDRESSES):
        limiter.take(str(number), 1)
    assert limiter.take("early", 0) == 0


@pytest.mark.parametrize(
    ("cost", "students", "each"),
    [
        (routes.EVENT, 200, 4),  # a page begins three events when it opens, and one at Generate
        (60, limits.Limits().students_per_room, 1),  # all students of a room join
    ],
)
def test_a_class_behind_one_address_presses_at_once(cost, students, each):
    buckets = guard.Guard(None).buckets
    assert max(buckets.take("a", cost) for _ in range(students * each)) == 0


def test_a_full_room_behind_one_address_is_served_for_an_hour(monkeypatch):
    """Every 30 seconds 400 students propose a word for a round, all at once."""
    now, buckets = at(monkeypatch), guard.Guard(None).buckets
    for second in range(0, 3600, 30):
        now[0] = float(second)
        assert max(buckets.take("a", 5) for _ in range(limits.current().students_per_room)) == 0


async def fetch(fence, path="/gradio_api/app_id", posted=None, **headers):
    """The answer of an app behind the guard to a GET, or to a POST with a body."""
    kind = {} if posted is None else {"content-type": "application/json"}
    transport = httpx.ASGITransport(fence, client=("192.0.2.1", 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
        method = "GET" if posted is None else "POST"
        return await http.request(method, path, content=posted, headers=kind | headers)


def test_what_starts_work_is_paid_and_what_is_looked_at_is_not():
    fence = guard.Guard(Response("x"))
    fence.buckets.take("192.0.2.1", 10**9)
    paid = [
        asyncio.run(fetch(fence, f"/gradio_api/{path}", b"{}")).status_code
        for path in ("queue/join", "call/a")
    ]
    free = [asyncio.run(fetch(fence, f"/gradio_api/{path}")).status_code for path in ("app_id", "call/a/b")]
    assert (paid, free) == ([429] * 2, [200] * 2)


# ---------------------------------------------------------------- failures and files


@pytest.mark.parametrize("level", [logging.INFO, logging.DEBUG])
def test_an_error_is_one_line_of_the_log_and_its_traceback_is_asked_for(caplog, level):
    fence = guard.Guard(AsyncMock(side_effect=OSError("disk\nfull " * 100)))
    with caplog.at_level(level):
        answer = asyncio.run(fetch(fence))
    assert answer.status_code == 500
    assert b"disk" not in answer.content
    [line] = [record.getMessage() for record in caplog.records if record.name == guard.__name__]
    assert "\n" not in line
    assert len(line) < 400
    assert "GET '/gradio_api/app_id' failed: OSError('disk" in line
    assert ("Traceback" in caplog.text) == (level == logging.DEBUG)


def test_an_error_after_the_answer_began_is_told_too(caplog):
    async def app(scope, receive, send):
        await Response("x")(scope, receive, send)
        raise OSError("late")

    assert asyncio.run(fetch(guard.Guard(app))).content == b"x"
    assert "OSError('late')" in caplog.text


def test_a_file_that_was_changed_is_served_as_it_is_now(url):
    script = ASSETS / "page" / "setup.js"
    times = script.stat()
    first = get(url, "/").text
    try:
        os.utime(script, (times.st_atime, times.st_mtime - 100))
        # the version of all scripts, from the times of their last changes
        assert get(url, "/").text != first
    finally:
        os.utime(script, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert get(url, "/").text == first


def test_pages_and_files_come_packed(url):
    for path in ("/", "/files/main.js", "/embed"):
        plain = get(url, path, **{"accept-encoding": "identity"})
        with httpx.stream("GET", url + path, headers={"accept-encoding": "gzip"}) as answer:
            packed = b"".join(answer.iter_raw())
        assert gzip.decompress(packed) == plain.content
        assert len(packed) < len(plain.content) / 1.5


@pytest.mark.parametrize("forged", ['x"><script>', "x'+alert(1)+'"])
def test_no_address_can_write_into_the_page(url, forged):
    head = f"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Forwarded-Host: {forged}\r\n\r\n"
    answer = raw(url, head)
    assert forged.encode() not in answer


def test_no_answer_tells_where_the_server_lies_and_no_browser_guesses_its_kind(url):
    for path in ("/", "/config", "/class", "/gradio_api/info", "/files/made/page.css", "/gradio_api/nothing"):
        answer = get(url, path)
        assert answer.status_code == (404 if "nothing" in path else 200)
        assert not any(str(place) in answer.text for place in (ROOT, PLOTLY.parent))
        assert answer.headers["x-content-type-options"] == "nosniff"
