"""How long a normal visitor waits while one client attacks.

    python -m tests.stress.attacks [NAME ...]          # through nginx, as docs/serving.md sets it up
    python -m tests.stress.attacks --bare [NAME ...]   # against the server itself

All stays on this machine: the attacker comes from 127.0.0.1 in a process of its own, visitors from 127.0.0.2
on. A visit opens the page and watches a short run. The wait without the attack is measured on the same
server, before the attack and after it, so that a slow machine slows down both.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import itertools
import os
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing import get_context
from statistics import median
from typing import Any
from urllib.parse import urlsplit

import httpx
import psutil

from tests.helpers.nginx import nginx
from tests.stress.visitors import PLAIN, Site, client, serving, write

SECONDS = 20.0
LEAD = 1.0
"""Seconds of an attack before the visitors come."""
VISITS = 5
"""Visitors before, during and after an attack, one after the other."""
MEGABYTE = 1_000_000
Got = Counter[str]
Attack = Callable[[str, float], Awaitable[Got]]
_sources = (f"127.0.{number // 200}.{number % 200 + 2}" for number in itertools.count())


# ---------------------------------------------------------------- attacks


async def _side_by_side(seconds: float, sums: Got, clients: int, act: Callable[[], Awaitable[None]]) -> None:
    """Let clients repeat an act for some seconds. Their errors are counted by type."""

    async def repeated() -> None:
        while True:
            try:
                await act()
            except (OSError, httpx.HTTPError) as error:
                sums[type(error).__name__] += 1
            await asyncio.sleep(0.1)

    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await asyncio.gather(*(repeated() for _ in range(clients)))


def _repeated(clients: int, once: Callable[[httpx.AsyncClient, Got], Awaitable[Any]]) -> Attack:
    """An attack by clients that repeat the same request and count the answers by their status."""

    async def attack(url: str, seconds: float) -> Got:
        sums = Got()
        async with client(url) as http:
            await _side_by_side(seconds, sums, clients, lambda: once(http, sums))
        return sums

    return attack


def _written(begin: bytes, rest: bytes, rate: float, connections: int, reads: bool = True) -> Attack:
    """An attack that writes `begin` once and then `again` for ever. rate: bytes a second over all
    connections. reads: whether it reads the answers, whose statuses it counts."""

    async def attack(url: str, seconds: float) -> Got:
        sums, host, port = Got(), urlsplit(url).hostname, urlsplit(url).port
        pause = max(0.05, len(rest) * connections / rate)

        async def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(OSError):
                while data := await reader.read(65_536):
                    sums.update(answer[:3].decode("latin-1") for answer in data.split(b"HTTP/1.1 ")[1:])
            writer.transport.abort()

        async def one() -> None:
            # the buffers of this side add nothing to those of the kernel
            reader, writer = await asyncio.open_connection(host, port, limit=65_536 if reads else 1)
            sums["connected"] += 1
            reading = asyncio.create_task(count(reader, writer)) if reads else None
            writer.write(begin)
            while not writer.is_closing():
                writer.write(rest)
                await asyncio.sleep(pause)
                await writer.drain()
            if reading:
                await reading

        await _side_by_side(seconds, sums, connections, one)
        return sums

    return attack


async def _start(http: httpx.AsyncClient, sums: Got) -> str:
    """Start the longest run that the page offers. Returns the address of its messages, or "" if it is
    refused."""
    longest = PLAIN | {"topology": "batch", "k": 64, "max_new_tokens": 400}
    answer = await http.post("/gradio_api/call/v2/decode", json=longest)
    sums[str(answer.status_code)] += 1
    return f"/gradio_api/call/v2/decode/{answer.json()['event_id']}" if answer.is_success else ""


async def _watched(http: httpx.AsyncClient, sums: Got) -> None:
    if messages := await _start(http, sums):
        answer = await http.get(messages)
        sums[f"watched: {answer.status_code}"] += 1


async def _granted(http: httpx.AsyncClient, path: str, body: dict[str, str]) -> Any:
    """The answer to a request that is repeated while a proxy refuses it because of the attack before."""
    while not (answer := await http.post(path, json=body)).is_success:
        await asyncio.sleep(0.2)
    return answer.json()


async def _news(url: str, seconds: float) -> Got:
    async with httpx.AsyncClient(base_url=url, timeout=seconds) as http:
        room = (await _granted(http, "/class/open", {}))["room"]
        joined = [(await _granted(http, "/class/join", {"room": room}))["token"] for _ in range(20)]

    async def look(http: httpx.AsyncClient, sums: Got) -> None:
        headers = {"x-class-token": secrets.choice(joined)}
        answer = await http.get("/class/now", params={"room": room, "since": "old"}, headers=headers)
        sums[str(answer.status_code)] += 1

    return await _repeated(40, look)(url, seconds)


def _get(target: str, *headers: str) -> bytes:
    return "\r\n".join([f"GET {target} HTTP/1.1", "Host: localhost", *headers, "", ""]).encode()


_POST = (
    b"POST /gradio_api/queue/join HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Content-Length: 200000\r\n\r\n{"
)
_FILE = _get("/files/plotly.min.js")
_HEADS, _FIELDS = _get("/", *["a:"] * 15_000), _get("/?" + "a&" * 16_000)
ATTACKS: dict[str, tuple[str, Attack]] = {
    "starts": ("the longest runs, which nobody watches, from 64 clients", _repeated(64, _start)),
    "streams": ("the longest runs, which 100 clients watch", _repeated(100, _watched)),
    "class": ("a room whose 40 students ask for news without waiting", _news),
    "slow bodies": ("200 bodies of which a byte a second comes", _written(_POST, b" ", 200, 200)),
    "slow readers": (
        "400 requests for a file of 4.7 MB, of which nothing is read",
        _written(_FILE, b"", 1, 400, reads=False),
    ),
    "connections": (
        "1,000 connections whose heads never end",
        _written(b"GET / HTTP/1.1\r\n", b"A: b\r\n", 500, 1000),
    ),
    "large heads": ("requests with 15,000 header lines", _written(b"", _HEADS, 1.6 * MEGABYTE, 4)),
    "long addresses": ("requests with 16,000 fields", _written(b"", _FIELDS, 1.6 * MEGABYTE, 4)),
}
"""Each attack and what it does."""


# ---------------------------------------------------------------- measurement


async def wait(site: Site, visits: int) -> tuple[list[float], list[str]]:
    """Seconds that this many normal visitors wait for the page and for a short run, and their errors."""
    waits, failures = [], []
    for _ in range(visits):
        async with client(site.address, source=next(_sources)) as http:
            start = time.monotonic()
            try:
                async with asyncio.timeout(60):
                    (await http.get("/")).raise_for_status()
                    visit = await site.generate(http)
            except (httpx.HTTPError, TimeoutError) as error:
                failures.append(f"{type(error).__name__}: {error}")
                continue
            if visit.failure:
                failures.append(visit.failure)
            waits.append(time.monotonic() - start)
    return waits, failures


def _run(name: str, url: str, seconds: float) -> Got:
    sums = asyncio.run(ATTACKS[name][1](url, seconds))
    gc.collect()  # closes the connections that are still open
    return sums


@contextmanager
def attacking() -> Iterator[ProcessPoolExecutor]:
    """The attacker's process. It has a low priority, because its work must not slow down the server."""
    with ProcessPoolExecutor(1, get_context("spawn")) as attacker:
        attacker.submit(os.nice, 10).result()  # the process has started
        yield attacker


def measured(
    name: str, site: Site, server: psutil.Process, attacker: ProcessPoolExecutor, seconds: float, visits: int
) -> dict[str, Any]:
    """The waits of normal visitors, in seconds, without an attack and with it, the ratio of their medians,
    the errors, and what the attacker got."""
    before, _ = asyncio.run(wait(site, visits))
    attack = attacker.submit(_run, name, site.address, seconds)
    time.sleep(LEAD)
    during, failures = asyncio.run(wait(site, visits))
    megabytes, sums = server.memory_info().rss >> 20, attack.result()
    after, _ = asyncio.run(wait(site, visits))
    without, with_it = median(before + after), median(during) if during else float("inf")
    figures = {"without": without, "with": with_it, "ratio": with_it / without, "megabytes": megabytes}
    return {"attack": name, "what": ATTACKS[name][0]} | figures | {"failures": failures, "attacker": sums}


@contextmanager
def site(proxied: bool) -> Iterator[tuple[Site, psutil.Process]]:
    """A running server with loaded models, behind nginx or not."""
    behind = ["--proxy", "127.0.0.1", "--runs-per-address", "2"] if proxied else []
    with ExitStack() as stack:
        address, process = stack.enter_context(serving(*behind))
        asyncio.run(wait(Site(address), 2))
        if proxied:
            address = stack.enter_context(nginx(address))
        yield Site(address), process


def main() -> None:
    """Serve, attack, visit, and write the report."""
    parser = argparse.ArgumentParser(description="A normal visitor's wait under attack.")
    parser.add_argument("names", nargs="*", choices=ATTACKS, help="which (default: all)")
    parser.add_argument("--bare", action="store_true", help="without a proxy")
    parser.add_argument("--out", help="JSON file for the report (default: none)")
    options = parser.parse_args()
    rows = []
    for name in options.names or ATTACKS:
        with site(not options.bare) as (address, process), attacking() as attacker:
            rows.append(measured(name, address, process, attacker, SECONDS, VISITS))
        print(" ".join(f"{key}={value}" for key, value in rows[-1].items()), flush=True)
    if options.out:
        write(options.out, {"attacks": rows})


if __name__ == "__main__":
    main()
