"""Attacks over plain HTTP: large, slow and forged requests, and the page again and again."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import httpx

from tests.stress.visitors import Site, client

LARGE = 22_600_000
_GONE = (httpx.HTTPError, OSError)


async def _again(seconds: float, workers: int, ask: Callable[[], Awaitable[str]]) -> dict[str, int]:
    """Let so many workers ask until the time is over. Returns the counts of their answers."""
    end, got = time.monotonic() + seconds, Counter[str]()

    async def worker() -> None:
        while time.monotonic() < end:
            try:
                async with asyncio.timeout(max(0.1, end - time.monotonic())):
                    got[await ask()] += 1
            except TimeoutError:
                got["no answer"] += 1
            except _GONE as error:
                got[type(error).__name__] += 1
                await asyncio.sleep(0.05)

    await asyncio.gather(*(worker() for _ in range(workers)))
    return dict(got)


async def _posting(url: str, seconds: float, workers: int, path: str, body: bytes) -> dict[str, int]:
    """Send the same body again and again."""
    headers = {"content-type": "application/json"}
    async with httpx.AsyncClient(base_url=url, timeout=seconds) as http:

        async def ask() -> str:
            return str((await http.post(f"/gradio_api/{path}", content=body, headers=headers)).status_code)

        return await _again(seconds, workers, ask)


async def large_bodies(url: str, seconds: float) -> dict[str, int]:
    """Six requests of 22.6 MB at once, of nothing but small values."""
    data = b'{"session_hash": "a", "fn_index": 0, "data": [' + b"1," * (LARGE // 2) + b"1]}"
    return await _posting(url, seconds, 6, "queue/join", data)


async def dense_bodies(url: str, seconds: float) -> dict[str, int]:
    """Bodies just below the limit, of nothing but small values."""
    data = b'{"session_hash": "a", "fn_index": 0, "data": [' + b"1," * 120_000 + b"1]}"
    return await _posting(url, seconds, 8, "queue/join", data)


async def fullest_bodies(url: str, seconds: float) -> dict[str, int]:
    """Bodies with as many values as are read at all."""
    data = b'{"session_hash": "a", "fn_index": 0, "data": [' + b"1," * 29_000 + b"1]}"
    return await _posting(url, seconds, 8, "cancel", data)


async def long_names(url: str, seconds: float) -> dict[str, int]:
    """Tabs that call themselves by names of 200 kB, which Gradio would keep."""
    body = {"session_hash": "x" * 200_000, "fn_index": 0, "data": []}
    return await _posting(url, seconds, 8, "queue/join", json.dumps(body).encode())


async def pages(url: str, seconds: float) -> dict[str, int]:
    """Five connections that ask for the page, always."""
    async with httpx.AsyncClient(base_url=url, timeout=seconds) as http:

        async def ask() -> str:
            return str((await http.get("/")).status_code)

        return await _again(seconds, 5, ask)


async def arrivals(url: str, seconds: float) -> dict[str, int]:
    """Thirty browsers that open the page with all its scripts and styles, again and again."""
    async with httpx.AsyncClient(base_url=url, timeout=seconds) as http:
        text = (await http.get("/")).text
        files = sorted({*re.findall(r"(?:\./)?((?:assets|static|files)/[^\"'\\ ]+\.(?:js|css))", text)})
        rounds = itertools.cycle(["", *files])

        async def ask() -> str:
            return str((await http.get(f"/{next(rounds)}")).status_code)

        return await _again(seconds, 30, ask)


async def many_addresses(url: str, seconds: float) -> dict[str, int]:
    """The page, each time for another address that it is said to be reached by."""
    numbers = itertools.count()
    async with httpx.AsyncClient(base_url=url, timeout=seconds) as http:

        async def ask() -> str:
            headers = {"x-forwarded-host": f"page{next(numbers)}.example.org"}
            return str((await http.get("/config", headers=headers)).status_code)

        return await _again(seconds, 5, ask)


async def unused_routes(url: str, seconds: float) -> dict[str, int]:
    """Deep links, recordings and uploads, which are kept on the disk."""
    turns = itertools.cycle(
        [
            ("GET", "/gradio_api/deep_link?session_hash=a", None),
            ("POST", "/gradio_api/upload", {"files": ("a.txt", b"x")}),
            ("POST", "/gradio_api/process_recording", {"video": ("a.mp4", b"x" * 100_000)}),
        ]
    )
    async with httpx.AsyncClient(base_url=url, timeout=seconds) as http:

        async def ask() -> str:
            method, path, files = next(turns)
            return str((await http.request(method, path, files=files)).status_code)

        return await _again(seconds, 5, ask)


async def _asking(
    url: str, seconds: float, panel: str, function: str, data: Callable[[], Any]
) -> dict[str, int]:
    """Send thirty-two questions at once to a function of a panel. LookupError if the page lacks it."""
    config = httpx.get(f"{url}/config", timeout=30).json()
    [asked] = [c for c in config["components"] if c["props"].get("elem_id") == panel]
    if function not in asked["props"]["server_fns"]:
        raise LookupError(f"{panel} has no function {function!r}")
    async with httpx.AsyncClient(base_url=url, timeout=seconds) as http:

        async def ask() -> str:
            body = {"data": data(), "component_id": asked["id"], "fn_name": function, "session_hash": "a"}
            return str((await http.post("/gradio_api/component_server", json=body)).status_code)

        return await _again(seconds, 32, ask)


async def questions(url: str, seconds: float) -> dict[str, int]:
    """Questions to the race laboratory, 10,000 races each."""
    numbers = itertools.count()
    weights = {"p": [1, 2, 3, 4] * 2, "q": [4, 3, 2, 1] * 2, "races": 10_000}
    return await _asking(url, seconds, "race_lab", "simulated", lambda: weights | {"seed": next(numbers)})


async def distributions(url: str, seconds: float) -> dict[str, int]:
    """Questions to the codecs of the most tokens, all different."""
    numbers = itertools.count(1)

    def asked() -> dict[str, Any]:
        p = [1 + (next(numbers) % 1000) / 7] + [10.0**-i for i in range(19)]
        return {"method": "greedy_rejection", "p": p, "q": p[::-1]}

    return await _asking(url, seconds, "codec_lab", "distributions", asked)


async def missing_updates(url: str, seconds: float) -> dict[str, int]:
    """All updates of a long run, asked for again and again: 150 bytes ask for megabytes."""
    site = await asyncio.to_thread(Site, url)
    async with client(url) as http:
        visit = await site.generate(http, length=400, k=16, baseline=False)
    run = visit.updates[0]["run"]
    return await _asking(url, seconds, "feed", "missing", lambda: {"run": run, "seq": 0})


async def class_news(url: str, seconds: float) -> dict[str, int]:
    """Forty students of one room who ask for its news without waiting, by an old version of it."""
    async with httpx.AsyncClient(base_url=url, timeout=seconds) as http:
        room = (await http.post("/class/open", json={})).json()["room"]
        joined = [(await http.post("/class/join", json={"room": room})).json()["token"] for _ in range(40)]
        tokens = itertools.cycle(joined)

        async def ask() -> str:
            headers = {"x-class-token": next(tokens)}
            answer = await http.get("/class/now", params={"room": room, "since": "old"}, headers=headers)
            return str(answer.status_code)

        return await _again(seconds, 40, ask)


def _raw(begin: bytes, drip: bytes, connections: int) -> Callable[[str, float], Awaitable[dict[str, int]]]:
    """An attack by connections that begin with these bytes and then send others each second, for ever."""

    async def attack(url: str, seconds: float) -> dict[str, int]:
        host, port = urlsplit(url).hostname, urlsplit(url).port
        end, got = time.monotonic() + seconds, Counter[str]()

        async def one() -> None:
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(begin)
                while time.monotonic() < end and not reader.at_eof():
                    writer.write(drip)
                    await writer.drain()
                    with suppress(TimeoutError):
                        async with asyncio.timeout(1):
                            got[(await reader.read(4096))[9:12].decode() or "closed"] += 1
            finally:
                writer.close()

        async def connection() -> None:
            while time.monotonic() < end:
                with suppress(OSError):
                    await one()
                await asyncio.sleep(0.2)

        await asyncio.gather(*(connection() for _ in range(connections)))
        return dict(got)

    return attack


_POST = b"POST /gradio_api/queue/join HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
ATTACKS = {
    "large-bodies": large_bodies,
    "dense-bodies": dense_bodies,
    "fullest-bodies": fullest_bodies,
    "stalled-bodies": _raw(_POST + b"Content-Length: 200000\r\n\r\n{", b" ", 200),
    "endless-bodies": _raw(
        _POST + b"Transfer-Encoding: chunked\r\n\r\n", b"8000\r\n" + b" " * 32768 + b"\r\n", 50
    ),
    "slow-heads": _raw(b"GET / HTTP/1.1\r\nHost: localhost\r\n", b"X-A: b\r\n", 400),
    "long-names": long_names,
    "pages": pages,
    "arrivals": arrivals,
    "many-addresses": many_addresses,
    "unused-routes": unused_routes,
    "questions": questions,
    "distributions": distributions,
    "missing-updates": missing_updates,
    "class-news": class_news,
}
