"""What a request must be before Gradio sees it: a name, a route, a body within its bounds, and its turn."""

import asyncio
import gzip
import json
import os
import re
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import brotli
import gradio
import httpx
import pytest
from gradio_client import Client

from components.decode import models
from components.guard import addresses, bodies, guard, hosts, limits, pace, routes
from components.guard.bodies import MANY_VALUES, Arriving, Bounds, Refused, again
from components.guard.line import Line
from components.guard.pace import Purses
from components.page.assets import ASSETS, PLOTLY, file_url
from components.server import feed
from tests.stress.visitors import ROOT, Site, client, serving, stream

SMALL = Bounds(size=1000, seconds=5, each=3, all=5)


@pytest.fixture(scope="module")
def site():
    with serving("--seats", "1", "--new-tokens", "300") as (address, _):
        yield Site(address)


def get(site, path, **headers):
    return httpx.get(f"{site.address}{path}", headers=headers, timeout=30)


# ---------------------------------------------------------------- routes

UNUSED = [
    *("GET /gradio_api/deep_link?session_hash=a", "POST /gradio_api/upload", "GET /gradio_api/openapi.json"),
    *("POST /gradio_api/process_recording", "GET /gradio_api/dev/reload", "GET /openapi.json", "GET /docs"),
    *("GET /gradio_api/proxy=http://127.0.0.1:1/", "GET /gradio_api/file=http://127.0.0.1:1/x", "GET /redoc"),
    *("GET /gradio_api/file=HTTPS://example.org/x", "GET /gradio_api/file/etc/passwd", "GET /monitoring"),
    *("GET /monitoring/summary", "GET /gradio_api/upload_progress?upload_id=1", "GET /gradio_api/token"),
    *("POST /login", "GET /logout", "GET /pwa_icon/9999", "POST /gradio_api/stream/1", "GET /svelte/a.js"),
    *("GET /gradio_api/stream/a/b/1/playlist.m3u8", "POST /gradio_api/run/generate", "GET /gradio_api/mcp"),
    *("POST /gradio_api/api/generate", "POST /gradio_api/call/decode", "GET /gradio_api/runs", "GET //"),
    *("GET /gradio_api/heartbeat/" + "a" * 65, "GET /assets//index.js", "GET /assets/../theme.css"),
    "GET /gradio_api/custom_component/a/client/b/c",
]


@pytest.mark.parametrize("request_line", UNUSED)
def test_what_the_page_does_not_use_is_not_there(site, request_line):
    method, path = request_line.split()
    answer = raw(site, f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 404"), answer[:80]
    assert answer.endswith(b'{"detail": "there is nothing here"}')


def raw(site, *parts, pause=0.0, until_closed=True):
    """What the server answers to these bytes until it closes the connection."""

    async def asked():
        host, port = site.address.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        try:
            for part in parts:
                writer.write(part if isinstance(part, bytes) else part.encode())
                await writer.drain()
                await asyncio.sleep(pause)
            async with asyncio.timeout(30):
                return await (reader.read() if until_closed else reader.read(65536))
        finally:
            writer.close()

    return asyncio.run(asked())


def test_another_method_is_told_which_ones_there_are(site):
    answer = httpx.delete(f"{site.address}/config")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")


def test_every_route_of_the_table_is_one_that_gradio_has_or_ours(site):
    """The table holds nothing that is left over: each route answers something else than 404."""
    paths = [
        *("/", "/config", "/gradio_api/info", "/theme.css", "/gradio_api/theme.css", "/manifest.json"),
        *("/favicon.ico", "/robots.txt", "/gradio_api/startup-events", "/gradio_api/app_id"),
        *("/gradio_api/queue/status", "/files/main.js"),
        *(re.findall(r'"\.?(/(?:assets|static)/[^"]+)"', get(site, "/").text)[:2]),
    ]
    assert {path: get(site, path).status_code for path in paths} == dict.fromkeys(paths, 200)
    posts = ("queue/join", "cancel", "reset", "component_server", "call/generate", "call/v2/generate")
    asked = {
        path: httpx.post(f"{site.address}/gradio_api/{path}", content="{}").status_code for path in posts
    }
    assert not {404, 405} & set(asked.values())
    streams = ("queue/data", "heartbeat/a", "call/generate/a")
    used = [*paths, *(f"/gradio_api/{path}" for path in (*posts, *streams))]
    # what this process has added is answered by us
    table = [route.path for route in routes.ROUTES if not route.answers]
    assert [path.pattern for path in table if not any(map(path.fullmatch, used))] == []


def test_the_public_client_finds_what_it_needs(site):
    visitor = Client(site.address, verbose=False)
    whole = visitor.submit("Once upon a time", max_new_tokens=4, api_name="/generate")
    assert whole.result(timeout=60)
    rounds = list(whole.outputs())
    assert sum(len(json.loads(round)["tokens"]) for round in rounds) == 4
    visitor.submit("Once", max_new_tokens=300, api_name="/generate").cancel()


# ---------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("host", "status"),
    [
        *(("127.0.0.1:1", 200), ("localhost", 200), ("[::1]:7860", 200), ("192.168.1.7", 200)),
        *(("page.localhost", 200), ("LOCALHOST:80", 200), ("localhost.", 200), ("evil.example", 421)),
        *(("127.0.0.1.evil.example:7860", 421), ("localhost.evil.example", 421), ("1e1", 421)),
        *(("a b", 400), ('"', 400), ("[::1", 400), ("a" * 500, 400), ("evil.example/127.0.0.1", 400)),
    ],
)
def test_only_known_names_are_answered(site, host, status):
    for path in ("/", "/gradio_api/queue/status", "/gradio_api/nothing"):
        answer = raw(site, f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
        expected = 404 if status == 200 and "nothing" in path else status
        assert answer.startswith(f"HTTP/1.1 {expected}".encode()), answer[:80]


def test_names_can_be_stated_and_behind_a_proxy_any_is_taken():
    options = SimpleNamespace(names="page.example.org, other.example:80", host="box.example")
    names = hosts.from_options(options, {"SPACE_HOST": "someone-space.hf.space"})
    expected = {"page.example.org", "other.example", "box.example", "someone-space.hf.space"}
    assert names == expected
    try:
        hosts.use(names)
        assert all(map(hosts.known, expected))
        assert not hosts.known("evil.example")
        addresses.use(addresses.Proxies(1))
        assert hosts.known("evil.example")
    finally:
        hosts.use(frozenset())
        addresses.use(addresses.Proxies())


def test_a_stated_name_that_is_none_is_told():
    with pytest.raises(ValueError, match="names = 'http://page' is not a name"):
        hosts.from_options(SimpleNamespace(names="http://page", host=None), {})


# ---------------------------------------------------------------- heads of answers


def test_pages_say_who_may_frame_them_and_what_they_may_load(site):
    page = get(site, "/")
    policy = dict(part.split(" ", 1) for part in page.headers["content-security-policy"].split("; "))
    assert policy["frame-ancestors"] == "'self'"
    assert policy["default-src"] == policy["base-uri"] == policy["form-action"] == "'self'"
    assert policy["object-src"] == "'none'"
    sources = " ".join(value for name, value in policy.items() if name != "frame-ancestors")
    assert "http" not in sources
    for path in ("/", "/config", "/theme.css", "/gradio_api/queue/status", "/gradio_api/nothing"):
        assert get(site, path).headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("path", ["/", "/?trace=wide-tree", "/class", "/embed", "/embed?trace=opening"])
def test_the_embedded_run_alone_may_stand_in_any_frame(site, path):
    policy = get(site, path).headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert ("frame-ancestors" in policy) == (not path.startswith("/embed"))


def test_only_a_space_is_shown_in_the_hubs_frames(monkeypatch):
    monkeypatch.setenv("SPACE_ID", "someone/decoding")
    with serving("--proxy", "1") as (address, _):
        policy = httpx.get(address).headers["content-security-policy"]
    assert f"frame-ancestors 'self' {guard.HUB}" in policy


@pytest.mark.parametrize("share", [False, True])
def test_only_a_shared_page_may_load_what_its_template_names(share):
    template = Path(gradio.__file__).parent.joinpath("templates", "frontend", "share.html").read_text()
    hosts = set(re.findall(r'<script[^>]+src="(https://[^/"]+)', template))
    page = asyncio.run(guarded(answering(200, content_type="text/html"), share)[1]())
    assert hosts
    assert all((host in page.headers["content-security-policy"]) == share for host in hosts)


def test_browsers_ask_again_for_our_own_scripts_and_are_told_when_they_are_the_same(site):
    path = "/files/main.js"
    first = get(site, path)
    assert first.headers["cache-control"] == "no-cache"
    again = get(site, path, **{"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        *(("bytes=0-1,4-5", 416), ("bytes=0-,0-", 416), ("bytes=", 416), ("bytes=a-b", 416)),
        *(("bytes=0-" + "9" * 5000, 416), ("bytes=0-9", 200), ("bytes=5-", 200), ("bytes=-5", 200)),
        *(("lines=1-2", 416), ("bytes=²-³", 416), ("bytes=0-1-2", 416)),
    ],
)
def test_more_than_one_range_is_refused_and_one_gets_the_whole(site, asked, status):
    for path in ("/theme.css", "/files/main.js", "/gradio_api/queue/status"):
        answer = raw(
            site,
            f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nRange: ".encode()
            + asked.encode()
            + b"\r\n\r\n",
        )
        assert answer.startswith(f"HTTP/1.1 {status}".encode()), answer[:60]


# ---------------------------------------------------------------- bodies


def body_of(chunks, bounds=SMALL, stated=None, pause=0.0):
    """A body read by `Arriving`: what it gives or raises. chunks: the last one ends it, None never comes."""
    coming = list(chunks)

    async def receive():
        await asyncio.sleep(pause)
        chunk = coming.pop(0)
        if chunk is None:
            await asyncio.sleep(3600)
        return {"type": "http.request", "body": chunk, "more_body": bool(coming)}

    headers = [] if stated is None else [(b"content-length", str(stated).encode())]
    reading = Arriving().read({"headers": headers}, receive, "a", bounds)
    return asyncio.run(asyncio.wait_for(reading, 20)), coming


def test_a_body_within_its_bounds_arrives_whole():
    assert body_of([b"x" * 400, b"", b"y" * 600]) == (b"x" * 400 + b"y" * 600, [])


def test_a_body_is_ended_at_the_limit_and_not_at_its_end():
    chunks = [b"x" * 600] * 50
    with pytest.raises(Refused, match="larger than 1,000 bytes") as refused:
        body_of(chunks)
    assert refused.value.status == 413
    with pytest.raises(Refused, match="larger than 1,000 bytes"):
        body_of([None], stated=1001)  # by its head alone: nothing is waited for


@pytest.mark.parametrize(("chunks", "pause"), [([b"x", None], 0), ([b"x"] * 500, 0.01)])
def test_a_body_that_does_not_come_or_trickles_is_given_up(chunks, pause):
    with pytest.raises(Refused, match=r"within 0\.2 seconds") as refused:
        body_of(chunks, replace(SMALL, seconds=0.2), pause=pause)
    assert refused.value.status == 408


def test_a_client_that_leaves_is_no_error_of_ours():
    async def receive():
        return {"type": "http.disconnect"}

    with pytest.raises(ConnectionError):
        asyncio.run(Arriving().read({"headers": []}, receive, "a", SMALL))


async def stalled():
    await asyncio.sleep(3600)


async def whole():
    return {"type": "http.request", "body": b"{}", "more_body": False}


@pytest.mark.parametrize("attackers", [1, 2, 7])
@pytest.mark.parametrize("begins", [b"", b"x" * 20_000], ids=["late", "large"])
def test_stalled_bodies_push_each_other_out_and_nobody_elses(attackers, begins, monkeypatch):
    """However many stall, of however many addresses, a body that arrives at once is read."""
    bounds = replace(SMALL, size=30_000)
    monkeypatch.setattr(bodies, "LATE", 0.1 if not begins else 60)

    def stalling():
        coming = [{"type": "http.request", "body": begins, "more_body": True}]

        async def receive():
            return coming.pop() if coming and begins else await asyncio.sleep(3600)

        return receive

    async def run():
        arriving = Arriving()
        stalls = [
            asyncio.ensure_future(arriving.read({"headers": []}, stalling(), f"bad {n % attackers}", bounds))
            for n in range(20)
        ]
        await asyncio.sleep(0.2)
        for visitor in ("bad 0", "good"):
            assert await arriving.read({"headers": []}, whole, visitor, bounds) == b"{}"
        async with asyncio.timeout(60):
            while len(stalls) - len(ended := [stall for stall in stalls if stall.done()]) > SMALL.all:
                await asyncio.sleep(0.01)
        assert {stall.exception().status for stall in ended} == {408}
        for stall in stalls:
            stall.cancel()
        await asyncio.gather(*stalls, return_exceptions=True)

    asyncio.run(run())


def test_a_class_whose_bodies_come_a_moment_after_their_heads_is_heard(monkeypatch):
    """Forty students of one address answer at once, over a network that sends head and body apart."""
    monkeypatch.setattr(bodies, "LATE", 60)

    async def run():
        arriving, sent = Arriving(), asyncio.Event()

        async def receive():
            await sent.wait()
            return await whole()

        arrived = asyncio.gather(*(arriving.read({"headers": []}, receive, "a", SMALL) for _ in range(40)))
        await asyncio.sleep(0)
        sent.set()
        return await arrived

    assert asyncio.run(run()) == [b"{}"] * 40


def posted(site, path, body, **headers):
    answer = httpx.post(
        f"{site.address}/gradio_api/{path}",
        content=body,
        headers={"content-type": "application/json"} | headers,
        timeout=30,
    )
    return answer.status_code, answer.json()["detail"] if answer.status_code >= 400 else answer.json()


@pytest.mark.parametrize("path", ["queue/join", "component_server", "call/generate", "cancel", "reset"])
def test_what_is_too_much_is_refused_on_every_route(site, path):
    assert posted(site, path, b" " * 250_001) == (413, "the request is larger than 250,000 bytes")
    status, told = posted(site, path, b"[" + b"1," * MANY_VALUES + b"1]")
    assert (status, told) == (413, f"the request has more than {MANY_VALUES:,} values")
    assert posted(site, path, b"{}", **{"content-type": "multipart/form-data; boundary=x"})[0] == 415


@pytest.mark.parametrize("name", ["session_hash", "event_id"])
@pytest.mark.parametrize("value", ["a" * 65, "a" * 200_000, "ä", "a b", "", 5, ["a"], {"a": 1}, "a\u0000"])
@pytest.mark.parametrize("path", ["queue/join", "component_server", "cancel"])
def test_a_name_that_would_be_kept_is_short_and_plain(site, name, value, path):
    body = {
        "session_hash": "a",
        "event_id": "a",
        "fn_index": 0,
        "data": [],
        "component_id": 1,
        "fn_name": "x",
    }
    status, told = posted(site, path, json.dumps(body | {name: value}))
    assert (status, told) == (400, "session_hash and event_id are at most 64 letters, digits, _ and -")


@pytest.mark.parametrize("number", [9999, None, "x", [1]])
def test_a_question_to_no_part_of_the_page_is_told(site, number):
    body = {"session_hash": "a", "component_id": number, "fn_name": "distributions", "data": {}}
    told = f"component_id = {number!r} is no part of this page"
    assert posted(site, "component_server", json.dumps(body)) == (400, told)


@pytest.mark.parametrize("path", ["queue/join", "call/generate"])
def test_an_event_with_too_few_values_is_told(site, path):
    status, told = posted(site, path, json.dumps({"session_hash": "a", "fn_index": site.decode, "data": []}))
    assert status == 400
    assert told.startswith("data has 0 values; this event takes ")


@pytest.mark.parametrize(
    "path",
    ["queue/data?session_hash=nobody", "queue/data", "call/generate/nobody", "call/v2/generate/nobody"],
)
def test_messages_of_a_session_that_nobody_opened_are_not_there(site, path):
    answer = get(site, f"/gradio_api/{path}")
    assert (answer.status_code, "Nothing runs here" in answer.text) == (404, True)


def test_of_two_sessions_in_a_query_the_one_that_gradio_reads_must_be_open(site):
    body = {"session_hash": "open", "fn_index": site.decode, "data": list(site.defaults.values())}
    assert posted(site, "queue/join", json.dumps(body))[0] == 200
    answer = get(site, "/gradio_api/queue/data?session_hash=open&session_hash=nobody")
    assert answer.status_code == 404


def test_a_failed_event_is_one_short_line_of_the_log(tmp_path):
    """Each event of the page gets values that no choice allows, and a file of the server."""
    odd = ["\ud800" * 1000, 10**400, {"path": "/etc/passwd", "meta": {"_type": "gradio.FileData"}}]
    log = tmp_path / "log"
    with log.open("wb") as out, serving(log=out) as (address, _):
        site = Site(address)
        before = log.stat().st_size

        async def ends(event, value, source):
            async with client(address, source=source) as http:
                data = [value] * len(event["inputs"])
                return [message["msg"] async for message in stream(http, event["id"], data)][-1]

        for number, event in enumerate(event for event in site.events if event["inputs"]):
            for value in odd:
                assert asyncio.run(ends(event, value, f"127.0.3.{number + 1}")) == "process_completed"
        logged = log.read_bytes()[before:].decode()
    failures = [line for line in logged.splitlines() if "Error: " in line]
    assert any("/etc/passwd" in line for line in failures), "Gradio refuses the file itself"
    assert max(map(len, failures)) <= 200
    assert "Traceback" not in logged


CROSS = [
    {"sec-fetch-site": "cross-site"},
    {"origin": "https://evil.example"},
    {"origin": "null"},
    {"origin": "http://localhost:1", "sec-fetch-site": "same-site"},
    {"origin": "https://evil.example", "x-forwarded-host": "page.example.org"},
]


@pytest.mark.parametrize("headers", CROSS)
@pytest.mark.parametrize("path", ["/gradio_api/queue/join", "/gradio_api/component_server", "/class/open"])
def test_a_strangers_page_cannot_send_anything(site, path, headers):
    told = {"content-type": "application/json"} | headers
    answer = httpx.post(site.address + path, content="{}", headers=told)
    assert (answer.status_code, "own page only" in answer.text) == (403, True)


@pytest.mark.parametrize("kind", [None, "text/plain", "multipart/form-data", "application/jsonx"])
@pytest.mark.parametrize("path", ["/gradio_api/queue/join", "/gradio_api/cancel", "/class/open"])
def test_what_a_form_could_send_is_refused(site, path, kind):
    answer = httpx.post(site.address + path, content="{}", headers={"content-type": kind} if kind else {})
    assert answer.status_code == 415


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"sec-fetch-site": "same-origin", "origin": "https://some-space.hf.space"},
        {"origin": "http://localhost:99", "host": "localhost:99"},
        {"origin": "https://page.example.org", "x-forwarded-host": "page.example.org"},
        {"content-type": "application/json; charset=utf-8"},
    ],
    ids=["a program", "behind a proxy", "a browser without encryption", "forwarded", "charset"],
)
def test_the_own_page_can(site, headers):
    told = {"content-type": "application/json"} | headers
    assert httpx.post(f"{site.address}/class/join", content='{"room": "A"}', headers=told).status_code == 404


@pytest.mark.parametrize(
    ("path", "status"),
    [
        *((f"/gradio_api/queue/data?session_hash={name}", 400) for name in ("a" * 65, "a%20b", "")),
        (f"/gradio_api/queue/data?session_hash=a&session_hash={'b' * 65}", 400),
        *((f"/?prompt={'x' * 20_000}", 200), (f"/?prompt={'x' * 40_000}", 414)),
        *((f"/gradio_api/queue/data?{fields}", 414) for fields in ("a&" * 400, "session_hash=a&" * 2_000)),
        *((f"/static{'/a' * 450}", 404), (f"/static/{'a' * 300}", 404)),
        *((f"{begin}{'/a' * 3_000}", 414) for begin in ("/static", "/files", "")),
    ],
    ids=lambda value: f"{value:.40}" if isinstance(value, str) else str(value),
)
def test_an_address_may_hold_a_set_up_but_no_more(site, path, status):
    assert get(site, path).status_code == status


def test_a_chunked_body_without_end_is_ended_by_the_server(site):
    head = "POST /gradio_api/queue/join HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
    head += "Content-Type: application/json\r\n\r\n"
    chunk = b"8000\r\n" + b" " * 0x8000 + b"\r\n"
    answer = raw(site, head, *[chunk] * 12)
    assert answer.startswith(b"HTTP/1.1 413")
    assert b"connection: close" in answer.lower()


# ---------------------------------------------------------------- turns


def test_questions_are_computed_a_few_at_once_and_in_turn_by_address():
    """Whoever asks a hundred times waits behind themselves."""

    async def run():
        line, order, at_once, most = Line(2), [], 0, 0

        async def ask(address):
            nonlocal at_once, most
            async with line.place(address, 200):
                at_once += 1
                most = max(most, at_once)
                await asyncio.sleep(0.001)
                order.append(address)
                at_once -= 1

        many = [asyncio.ensure_future(ask("many")) for _ in range(100)]
        await asyncio.sleep(0)
        await asyncio.gather(*(ask(f"one {n}") for n in range(5)), *many)
        return order, most

    order, most = asyncio.run(run())
    assert most == 2
    assert order.count("many") == 100
    assert max(order.index(f"one {n}") for n in range(5)) < 14


def test_who_leaves_the_line_is_forgotten_and_a_full_one_is_told():
    async def run():
        line = Line(1)
        waiting = []
        async with line.place("a", 3):
            for _ in range(3):
                waiting.append(asyncio.ensure_future(line.place("a", 3).__aenter__()))
                await asyncio.sleep(0)
            with pytest.raises(Refused, match="3 of your questions wait already"):
                async with line.place("a", 3):
                    pass
            for each in waiting:
                each.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
        async with asyncio.timeout(5):
            for _ in range(2):  # the place is free again, and given once
                async with line.place("b", 3):
                    pass
            async with line.place("b", 3):
                other = asyncio.ensure_future(line.place("c", 3).__aenter__())
                await asyncio.sleep(0)
                assert not other.done()
                other.cancel()

    asyncio.run(run())


def test_a_place_that_was_called_and_left_at_once_goes_to_the_next():
    async def run():
        line = Line(1)
        first = line.place("a", 3)
        await first.__aenter__()
        second = asyncio.ensure_future(line.place("b", 3).__aenter__())
        await asyncio.sleep(0)
        await first.__aexit__(None, None, None)  # b is called ...
        second.cancel()  # ... and leaves before it knows
        await asyncio.gather(second, return_exceptions=True)
        async with asyncio.timeout(5):
            async with line.place("c", 3):
                return True

    assert asyncio.run(run())


def test_a_place_rests_after_its_computation():
    async def run():
        line, loop = Line(1), asyncio.get_running_loop()
        async with line.place("a", 3) as place:
            place.rest = 0.1
        left = loop.time()
        async with line.place("b", 3):
            return loop.time() - left

    assert asyncio.run(run()) >= 0.09


def test_quick_functions_are_those_that_stop_repeat_watch_and_cancel():
    functions = [feed.stop, feed.missing, *models.server_functions(None, None)]
    assert sorted(routes.QUICK) == sorted(function.__name__ for function in functions)


def test_quick_functions_pass_computations_and_wait_for_each_other():
    """While a computation and a quick function go on, others of their kind wait, also those of a strange
    name."""
    begun, may_end = [], asyncio.Event()

    async def app(scope, receive, send):
        begun.append(json.loads((await receive())["body"])["fn_name"])
        await may_end.wait()
        await answering(200)(scope, receive, send)

    async def run():
        _, ask = guarded(app)
        asked = []
        for name in ("grown", "exact", ["stop"], "stop", "missing"):
            body = json.dumps({"session_hash": "a", "component_id": 1, "fn_name": name, "data": {}})
            asked.append(asyncio.ensure_future(ask("/gradio_api/component_server", body.encode())))
        await asyncio.sleep(0.1)
        first = sorted(begun)
        may_end.set()
        return first, [answer.status_code for answer in await asyncio.gather(*asked)]

    assert asyncio.run(run()) == (["grown", "stop"], [200] * 5)


# ---------------------------------------------------------------- pace


def test_an_address_may_come_all_at_once_and_then_at_its_pace(bounds):
    bounds(units=1000, units_per_second=100)
    now = [0.0]
    purses = Purses(lambda: now[0])
    assert [purses.pay("a", 200) for _ in range(5)] == [0.0] * 5
    assert purses.pay("a", 200) == pytest.approx(2)
    assert purses.pay("b", 200) == 0
    now[0] += 2
    assert purses.pay("a", 100) == pytest.approx(1)
    now[0] += 1000
    assert [purses.pay("a", 500) for _ in range(3)] == pytest.approx([0, 0, 5])


def test_who_asks_far_too_much_is_refused_and_soon_welcome_again(bounds):
    bounds(units=100, units_per_second=100)
    now = [0.0]
    purses = Purses(lambda: now[0])
    for _ in range(100):
        purses.pay("a", 500)
    started = time.monotonic()
    with pytest.raises(Refused, match="too many requests from your address") as refused:
        asyncio.run(purses.wait("a", 1))
    assert refused.value.status == 429
    assert time.monotonic() - started >= 0.9 * pace.LATE
    now[0] += 2 * pace.LONGEST + 0.1
    asyncio.run(purses.wait("a", 1))


def test_purses_of_invented_addresses_are_forgotten(bounds):
    purses = Purses()
    purses.pay("early", 10**9)
    assert purses.pay("early", 0) > 0
    for number in range(pace.ADDRESSES):
        purses.pay(str(number), 1)
    assert purses.pay("early", 0) == 0


def test_a_class_behind_one_address_arrives_at_once():
    """Forty pages with all their files, twice: nobody waits."""
    purses, page = Purses(lambda: 0.0), routes.matching("GET", "/")
    file = routes.matching("GET", "/assets/a.js")
    assert max(purses.pay("a", cost.cost) for _ in range(80) for cost in (page, *[file] * 150)) == 0


def test_a_full_room_behind_one_address_is_served_for_an_hour():
    """400 students wait 20 seconds for each look. Every 30 seconds they draft a round: each proposes a word
    and looks after each of four changes."""
    now = [0.0]
    purses, students = Purses(lambda: now[0]), limits.current().students_per_room
    cost = routes.Route(("GET",), re.compile("")).cost  # the routes below `/class` state no other
    for second in range(3600):
        now[0] = float(second)
        requests = students // 20 + 1 + (5 * students if second % 30 == 0 else 0)
        assert purses.pay("a", requests * cost) == 0


# ---------------------------------------------------------------- what is kept


def test_a_page_is_made_for_the_address_under_which_it_was_asked_for(site):
    def root(answer):
        return json.loads(re.search(r"window\.gradio_config = (\{.*?\});</script>", answer.text)[1])["root"]

    for _ in range(2):
        assert root(get(site, "/")) == site.address
        assert root(get(site, "/", host="localhost:99")) == "http://localhost:99"
        forwarded = {"x-forwarded-host": "page.example.org", "x-forwarded-proto": "https"}
        assert root(get(site, "/", **forwarded)) == "https://page.example.org"
        assert get(site, "/config", **forwarded).json()["root"] == "https://page.example.org"
        assert "https://page.example.org" in get(site, "/gradio_api/info", **forwarded).text
        assert "page.example.org" not in get(site, "/gradio_api/info").text
    assert "made-once" not in get(site, "/").text


@pytest.mark.parametrize("forged", ['x"><script>', "x'+alert(1)+'", "a b", "\\u003c", "é"])
def test_no_address_can_write_into_the_page(site, forged):
    answer = raw(
        site,
        f"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Forwarded-Host: {forged}\r\n\r\n",
    )
    assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 200"))
    assert forged.encode() not in answer


@pytest.mark.parametrize(
    ("accepted", "encoding"),
    [
        ("br, gzip", "br"),
        ("gzip", "gzip"),
        ("", None),
        ("br;q=0, gzip", "gzip"),
        ("GZIP;q=0.5", None),
        ("x", None),
    ],
)
def test_pages_and_files_come_packed_as_the_visitor_can_take_them(site, accepted, encoding):
    unpack = {"br": brotli.decompress, "gzip": gzip.decompress, None: bytes}[encoding]
    for path in ("/", "/config", "/theme.css", "/files/main.js"):
        plain = get(site, path, **{"accept-encoding": "identity"})
        with httpx.stream("GET", site.address + path, headers={"accept-encoding": accepted}) as answer:
            packed = b"".join(answer.iter_raw())
        assert answer.headers.get("content-encoding") == encoding
        assert int(answer.headers["content-length"]) == len(packed)
        assert unpack(packed) == plain.content
        head = httpx.head(site.address + path, headers={"accept-encoding": accepted})
        assert (head.headers["content-length"], head.content) == (answer.headers["content-length"], b"")


def test_the_page_is_what_gradio_writes(site):
    """Everything but its root: compared with the app's own answer, as the config tells it."""
    config = json.loads(re.search(r"window\.gradio_config = (\{.*?\});</script>", get(site, "/").text)[1])
    own = get(site, "/config").json()
    same = ("version", "app_id", "title", "theme_hash", "api_prefix", "root")
    assert {name: config[name] for name in same} == {name: own[name] for name in same}
    assert len(config["components"]) == len(own["components"]) > 50
    assert get(site, "/?page=nothing&deep_link=x&__theme=dark").text == get(site, "/").text


def test_a_file_that_was_changed_is_served_as_it_is_now(site):
    """Whoever works on a script needs no new server."""
    script = ASSETS / "page" / "setup.js"
    before = script.stat()
    path = f"/{file_url(script)}"
    first = get(site, path)
    try:
        os.utime(script, (before.st_atime, before.st_mtime - 100))
        assert get(site, path).headers["etag"] != first.headers["etag"]
    finally:
        os.utime(script, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert get(site, path).headers["etag"] == first.headers["etag"]


def test_no_answer_tells_where_the_server_lies(site):
    for path in ("/", "/config", "/class", "/gradio_api/info", "/files/made/page.css"):
        answer = get(site, path)
        assert answer.status_code == 200
        assert str(ROOT) not in answer.text
        assert str(PLOTLY.parent) not in answer.text


def guarded(app, share=False):
    """A guard around an app that answers every path, and a function that asks it for a path, or posts it a
    body."""
    blocks = SimpleNamespace(share=share, custom_mount_path=None, blocks={1: None})
    served = SimpleNamespace(get_blocks=lambda: blocks, root_path="")
    fence = guard.Guard(app)

    async def ask(path="/gradio_api/app_id", posted=None, **headers):
        sent = []
        coming = again(posted, asyncio.Event().wait) if posted else whole
        kind = {"content-type": "application/json"} if posted else {}

        async def send(message):
            sent.append(message)

        method = "POST" if posted else "GET"
        scope = {"type": "http", "method": method, "path": path, "app": served, "query_string": b""}
        headers = httpx.Headers({"host": "localhost", **kind, **headers})
        await fence(scope | {"headers": headers.raw, "client": ("192.0.2.1", 1)}, coming, send)
        body = b"".join(message.get("body", b"") for message in sent[1:])
        return httpx.Response(sent[0]["status"], headers=sent[0]["headers"], content=body)

    return fence, ask


def answering(status, body=b"", content_type="text/plain"):
    async def app(scope, receive, send):
        headers = [(b"content-type", content_type.encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return app


@pytest.mark.parametrize(
    ("app", "price"),
    [
        (answering(200), 0),
        (answering(404), pace.REFUSED),
        (answering(500), pace.FAILED),
        (answering(200, b"x" * 100 * pace.UNIT_BYTES), 100),
    ],
    ids=["answered", "refused", "failed", "large"],
)
def test_an_answer_costs_by_its_status_and_its_size(app, price):
    fence, ask = guarded(app)
    paid = []
    fence.purses.pay = lambda visitor, units: paid.append(units) or 0.0
    body = asyncio.run(ask()).content
    assert sum(paid) == routes.matching("GET", "/gradio_api/app_id").cost + price
    assert len(body) in (0, 100 * pace.UNIT_BYTES)


def test_who_is_in_a_room_pays_from_another_purse_than_strangers_of_the_address(monkeypatch):
    monkeypatch.setattr(routes, "ROUTES", [*routes.ROUTES])
    routes.add("/room", "", answering(200), within=lambda scope: (b"token", b"right") in scope["headers"])
    fence, ask = guarded(answering(200))
    fence.purses.pay("192.0.2.1", 10**9)
    answers = [asyncio.run(ask("/room", token=token)).status_code for token in ("right", "wrong")]
    assert answers == [200, 429]


def test_an_error_is_one_line_of_the_log_and_no_traceback(caplog):
    async def app(scope, receive, send):
        raise OSError("disk\nfull " * 100)

    answer = asyncio.run(guarded(app)[1]())
    assert answer.status_code == 500
    assert b"disk" not in answer.content
    [line] = caplog.messages
    assert "\n" not in line
    assert len(line) < 400
    assert "GET '/gradio_api/app_id' failed: OSError: disk full" in line
    assert "test_guard.py:" in line


def test_an_error_after_the_answer_began_is_told_too(caplog):
    async def app(scope, receive, send):
        await answering(200, b"x")(scope, receive, send)
        raise OSError("late")

    fence, ask = guarded(app)
    paid = []
    fence.purses.pay = lambda visitor, units: paid.append(units) or 0.0
    assert asyncio.run(ask()).content == b"x"
    assert "OSError: late" in caplog.text
    assert pace.FAILED in paid


def test_for_many_visitors_at_once_an_answer_is_made_once():
    made = []

    async def app(scope, receive, send):
        made.append(scope["path"])
        await asyncio.sleep(0)
        await answering(200, b"x" * 500)(scope, receive, send)

    async def run():
        _, ask = guarded(app)
        return await asyncio.gather(*(ask("/theme.css") for _ in range(60)))

    assert [answer.content for answer in asyncio.run(run())] == [b"x" * 500] * 60
    assert made == ["/theme.css"]
