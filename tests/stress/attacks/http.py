"""Attacks over plain HTTP: large, slow and forged requests, and the page again and again."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import httpx

from tests.stress.visitors import Site, client

Attack = Callable[[str, float], Awaitable[dict[str, int]]]
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


def _attack(workers: int, ask: Callable[[httpx.AsyncClient, int], Awaitable[httpx.Response]]) -> Attack:
    """Make an attack by so many workers out of one request, which is given its number."""

    async def attack(url: str, seconds: float) -> dict[str, int]:
        numbers = itertools.count()
        async with httpx.AsyncClient(base_url=url, timeout=seconds) as http:

            async def status() -> str:
                return str((await ask(http, next(numbers))).status_code)

            return await _again(seconds, workers, status)

    return attack


def _posting(workers: int, path: str, body: bytes) -> Attack:
    """Make an attack that sends the same body again and again."""
    headers = {"content-type": "application/json"}
    return _attack(workers, lambda http, _: http.post(f"/gradio_api/{path}", content=body, headers=headers))


def _values(count: int) -> bytes:
    """A body of so many small values."""
    return b'{"session_hash": "a", "fn_index": 0, "data": [' + b"1," * count + b"1]}"


async def arrivals(url: str, seconds: float) -> dict[str, int]:
    """Thirty browsers that open the page with all its scripts and styles, again and again."""
    text = (await asyncio.to_thread(httpx.get, url, timeout=30)).text
    files = sorted({*re.findall(r"(?:\./)?((?:assets|static|files)/[^\"'\\ ]+\.(?:js|css))", text)})
    paths = ["", *files]
    return await _attack(30, lambda http, number: http.get(f"/{paths[number % len(paths)]}"))(url, seconds)


async def _other_address(http: httpx.AsyncClient, number: int) -> httpx.Response:
    """Ask for the page, each time for another address that it is said to be reached by."""
    return await http.get("/config", headers={"x-forwarded-host": f"page{number}.example.org"})


_UNUSED: list[tuple[str, str, Any]] = [
    ("GET", "/gradio_api/deep_link?session_hash=a", None),
    ("POST", "/gradio_api/upload", {"files": ("a.txt", b"x")}),
    ("POST", "/gradio_api/process_recording", {"video": ("a.mp4", b"x" * 100_000)}),
]


async def _unused_route(http: httpx.AsyncClient, number: int) -> httpx.Response:
    """Ask for deep links, recordings and uploads, which Gradio would keep on the disk."""
    method, path, files = _UNUSED[number % len(_UNUSED)]
    return await http.request(method, path, files=files)


async def _questions(
    url: str, seconds: float, panel: str, function: str, data: Callable[[], Any]
) -> dict[str, int]:
    """Send thirty-two questions at once to a function of a panel. LookupError if the page lacks it."""
    config = httpx.get(f"{url}/config", timeout=30).json()
    [asked] = [c for c in config["components"] if c["props"].get("elem_id") == panel]
    if function not in asked["props"]["server_fns"]:
        raise LookupError(f"{panel} has no function {function!r}")

    def ask(http: httpx.AsyncClient, _: int) -> Awaitable[httpx.Response]:
        body = {"data": data(), "component_id": asked["id"], "fn_name": function, "session_hash": "a"}
        return http.post("/gradio_api/component_server", json=body)

    return await _attack(32, ask)(url, seconds)


async def questions(url: str, seconds: float) -> dict[str, int]:
    """Questions to the race laboratory, 10,000 races each."""
    numbers = itertools.count()
    weights = {"p": [1, 2, 3, 4] * 2, "q": [4, 3, 2, 1] * 2, "races": 10_000}
    return await _questions(url, seconds, "race_lab", "simulated", lambda: weights | {"seed": next(numbers)})


async def distributions(url: str, seconds: float) -> dict[str, int]:
    """Questions to the codecs of the most tokens, all different."""
    numbers = itertools.count(1)

    def asked() -> dict[str, Any]:
        p = [1 + (next(numbers) % 1000) / 7] + [10.0**-i for i in range(19)]
        return {"method": "greedy_rejection", "p": p, "q": p[::-1]}

    return await _questions(url, seconds, "codec_lab", "distributions", asked)


async def missing_updates(url: str, seconds: float) -> dict[str, int]:
    """All updates of a long run, asked for again and again: 150 bytes ask for megabytes."""
    site = await asyncio.to_thread(Site, url)
    async with client(url) as http:
        visit = await site.generate(http, length=400, k=16, baseline=False)
    run = visit.updates[0]["run"]
    return await _questions(url, seconds, "feed", "missing", lambda: {"run": run, "seq": 0})


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


_LONG_NAME = json.dumps({"session_hash": "x" * 200_000, "fn_index": 0, "data": []}).encode()
"""The body of a tab with a name of 200 kB, which Gradio would keep."""
ATTACKS: dict[str, Attack] = {
    "large-bodies": _posting(6, "queue/join", _values(11_300_000)),  # 22.6 MB
    "dense-bodies": _posting(8, "queue/join", _values(120_000)),  # just below the limit
    "fullest-bodies": _posting(8, "cancel", _values(29_000)),  # as many values as are read at all
    "long-names": _posting(8, "queue/join", _LONG_NAME),
    "pages": _attack(5, lambda http, _: http.get("/")),
    "arrivals": arrivals,
    "many-addresses": _attack(5, _other_address),
    "unused-routes": _attack(5, _unused_route),
    "questions": questions,
    "distributions": distributions,
    "missing-updates": missing_updates,
    "class-news": class_news,
}
