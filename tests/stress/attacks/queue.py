"""Attacks through Gradio's queue: events without a listener, invented tabs, checks, watchers, new
samplings."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import httpx

from tests.stress.visitors import Site, client

LONG = {"length": 400, "baseline": True, "topology": "batch", "k": 64}
"""The longest run that the page offers."""
GENERATE = ["Once upon a time", "ersd", "batch", 64, 400, 1.0, 0, 1.0, 0, False, ""]
"""The same through `/generate`."""

One = Callable[[Site, httpx.AsyncClient, Counter[str]], Awaitable[None]]
"""What one client does once; it counts the answers by their status."""
ATTACKS: dict[str, Callable[[str, float], Awaitable[dict[str, int]]]] = {}


def _body(site: Site, event: int, **settings: Any) -> dict[str, Any]:
    data = list((site.defaults | LONG | settings).values()) if event == site.decode else []
    return {"fn_index": event, "data": data, "session_hash": secrets.token_hex(8)}


async def joined(http: httpx.AsyncClient, body: dict[str, Any], got: Counter[str]) -> bool:
    answer = await http.post("/gradio_api/queue/join", json=body)
    got[f"{answer.status_code}"] += 1
    return answer.status_code == 200


async def _listened(http: httpx.AsyncClient, body: dict[str, Any], got: Counter[str]) -> None:
    """Send one event and read its messages to the end."""
    if not await joined(http, body, got):
        return
    session = {"session_hash": body["session_hash"]}
    async with http.stream("GET", "/gradio_api/queue/data", params=session) as lines:
        async for line in lines.aiter_lines():
            if line.startswith("data:") and json.loads(line[5:])["msg"] in (
                "process_completed",
                "close_stream",
            ):
                got["completed"] += 1
                return


async def again_and_again(url: str, seconds: float, at_once: int, one: One) -> dict[str, int]:
    """Call `one` with so many clients of one address until the time is over.

    RuntimeError if the server understands none of the requests: such an attack attacks nothing.
    """
    site, got, end = await asyncio.to_thread(Site, url), Counter[str](), time.monotonic() + seconds

    async def client_of_it(http: httpx.AsyncClient) -> None:
        while time.monotonic() < end:
            try:
                async with asyncio.timeout(max(0.1, end - time.monotonic())):
                    await one(site, http, got)
            except TimeoutError:
                return
            except httpx.HTTPError as error:
                got[type(error).__name__] += 1
                await asyncio.sleep(0.2)

    async with client(url) as http:
        await asyncio.gather(*(client_of_it(http) for _ in range(at_once)))
    if (got["400"] or got["422"]) and not got["200"]:
        raise RuntimeError(f"no request of this attack is one that the server takes: {dict(got)}")
    return dict(got)


def _attack(at_once: int) -> Callable[[One], None]:
    """Make an attack by so many clients out of what one of them does again and again."""

    def add(one: One) -> None:
        async def attack(url: str, seconds: float) -> dict[str, int]:
            return await again_and_again(url, seconds, at_once, one)

        ATTACKS[one.__name__.replace("_", "-")] = attack

    return add


@_attack(32)
async def unheard_runs(site: Site, http: httpx.AsyncClient, got: Counter[str]) -> None:
    """Long runs whose messages nobody takes, each of a tab of its own, as many as get in."""
    if not await joined(http, _body(site, site.decode), got):
        await asyncio.sleep(0.1)


@_attack(80)
async def invented_tabs(site: Site, http: httpx.AsyncClient, got: Counter[str]) -> None:
    """Eighty tabs of one address, each with a long run that it watches."""
    await _listened(http, _body(site, site.decode), got)
    await asyncio.sleep(0.1)


@_attack(20)
async def long_prompts(site: Site, http: httpx.AsyncClient, got: Counter[str]) -> None:
    """Prompts as long as they may be: the first turn of a run reads all of it."""
    await _listened(http, _body(site, site.decode, prompt="once upon a time " * 100, length=4), got)


@_attack(8)
async def new_samplings(site: Site, http: httpx.AsyncClient, got: Counter[str]) -> None:
    """A temperature that nobody had before in each run: the acceptance is to be measured."""
    temperature = 0.5 + secrets.randbelow(10**6) / 1e6
    new = {"topology": "optimal", "k": 8, "length": 4, "temperature": temperature}
    await _listened(http, _body(site, site.decode, **new), got)


@_attack(100)
async def endpoint(_: Site, http: httpx.AsyncClient, got: Counter[str]) -> None:
    """`/generate` a hundred times at once, half of it never read."""
    answer = await http.post("/gradio_api/call/generate", json={"data": GENERATE})
    got[str(answer.status_code)] += 1
    if answer.status_code == 200 and secrets.randbelow(2):
        await http.get(f"/gradio_api/call/generate/{answer.json()['event_id']}")
        got["read"] += 1
    await asyncio.sleep(0.1)


@_attack(60)
async def checks(site: Site, http: httpx.AsyncClient, got: Counter[str]) -> None:
    """Losslessness checks of the most decodes, sixty at once."""
    event = next(e for e in site.events if e["outputs"] == [site.components["lossless"]])
    props = {c["id"]: c["props"] for c in site.config["components"]}
    values = [props[number].get("value") for number in event["inputs"]]
    values = [20_000 if value == 8000 else value for value in values]
    await _listened(http, _body(site, event["id"]) | {"data": values}, got)
    await asyncio.sleep(0.1)


@_attack(118)
async def watchers(site: Site, http: httpx.AsyncClient, got: Counter[str]) -> None:
    """A hundred and eighteen tabs that ask which models are loaded, as a page does when it opens."""
    loads = (e["id"] for e in site.events if any(kind == "load" for _, kind in e["targets"]))
    await _listened(http, _body(site, next(loads)), got)
    await asyncio.sleep(3)


@_attack(30)
async def small_events(site: Site, http: httpx.AsyncClient, got: Counter[str]) -> None:
    """The page's smallest events, each of a tab that was never seen: Gradio makes its state anew."""
    event = next(e for e in site.events if not e["inputs"] and e["id"] != site.decode)
    await joined(http, _body(site, event["id"]), got)


@_attack(40)
async def slow_readers(site: Site, http: httpx.AsyncClient, got: Counter[str]) -> None:
    """Runs whose messages are asked for and never read."""
    body = _body(site, site.decode)
    if not await joined(http, body, got):
        await asyncio.sleep(0.2)
        return
    session = {"session_hash": body["session_hash"]}
    async with http.stream("GET", "/gradio_api/queue/data", params=session):
        await asyncio.sleep(3600)  # the attack ends before
