"""Visitors over a long time: `python -m tests.stress.soak --minutes 30`.

A few visitors at a time generate, replay, leave early or send nonsense, while the server's memory is sampled.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import numpy as np
import psutil

import specdec
from tests.stress.fuzz import Fuzzer
from tests.stress.load import alone, asked
from tests.stress.visitors import RESULTS, Site, client, serving, stream, write

SAMPLE_EVERY = 10.0
"""Seconds between two samples of the memory."""


class Soak:
    """The visitors' actions so far, and the failures."""

    def __init__(self, site: Site, http: httpx.AsyncClient, pair: Any, seed: int):
        self.site, self.http, self.pair = site, http, pair
        self.random, self.fuzzer = random.Random(seed), Fuzzer(site, http, seed)
        self.done: Counter[str] = Counter()
        self.failures: list[str] = []
        self.different = 0
        self.actions: list[Callable[[], Awaitable[None]]] = [
            *5 * [self.generate],
            *2 * [self.replay],
            self.leave,
            self.nonsense,
        ]

    async def visitor(self, until: float, pause: float) -> None:
        """Send one visitor after the other until the clock (`time.monotonic`) reaches `until`."""
        while time.monotonic() < until:
            action = self.random.choice(self.actions)
            await action()
            self.done[action.__name__] += 1
            await asyncio.sleep(pause * self.random.random())

    async def generate(self) -> None:
        """Make a run and compare it with the same run alone."""
        settings = asked(self.random.randrange(1000), self.random.randint(2, 96))
        visit = await self.site.generate(self.http, **settings)
        if visit.failure:
            self.failures.append(visit.failure)
        else:
            expected = await asyncio.to_thread(alone, self.pair, visit)
            self.different += visit.token_ids != expected

    async def replay(self) -> None:
        """Open the page with a recorded run."""
        await self.site.replay(self.http)

    async def leave(self) -> None:
        """Start a run and close its tab in the middle."""
        async for _ in stream(self.http, "decode", self.site.defaults):
            return

    async def nonsense(self) -> None:
        """Send a bad request."""
        await self.fuzzer.one()


async def soak(
    site: Site, process: psutil.Process, pair: Any, minutes: float, visitors: int = 3, pause: float = 4.0
) -> dict[str, Any]:
    """Let visitors come for this long. Returns their actions, the failures, and the memory over time."""
    start, samples = time.monotonic(), []

    async def sample() -> None:
        while (passed := time.monotonic() - start) < 60 * minutes:
            samples.append((round(passed / 60, 2), process.memory_info().rss >> 20))
            print(f"{passed / 60:.1f} min, {samples[-1][1]} MB, {dict(running.done)}", flush=True)
            await asyncio.sleep(min(SAMPLE_EVERY, 20 * minutes))

    # a closed tab has no connection, and the page keeps none open by itself (`connect_heartbeat`)
    async with client(site.address, keep=0) as http:
        running = Soak(site, http, pair, seed=0)
        coming = [running.visitor(start + 60 * minutes, pause) for _ in range(visitors)]
        await asyncio.gather(sample(), *coming)
    return {
        "minutes": minutes,
        "done": dict(running.done),
        "failures": running.failures,
        "different": running.different,
        "faults": running.fuzzer.found.faults,
        "megabytes_per_minute_in_the_second_half": growth(samples),
        "megabytes": samples,
    }


def growth(samples: list[tuple[float, int]]) -> float:
    """The slope of the second half's samples in megabytes per minute."""
    minutes, megabytes = np.array(samples[len(samples) // 2 :]).T
    return float(np.polyfit(minutes, megabytes, 1)[0]) if len(minutes) > 1 else 0.0


def main(arguments: list[str] | None = None) -> None:
    """Serve, visit, sample, and write the report."""
    parser = argparse.ArgumentParser(description="Visitors for a long time, and the server's memory.")
    parser.add_argument("--minutes", type=float, default=30, help="how long (default: 30)")
    parser.add_argument("--visitors", type=int, default=3, help="at a time (default: 3)")
    parser.add_argument("--pause", type=float, default=4.0, help="most seconds between two (default: 4)")
    parser.add_argument("--out", default=RESULTS / "soak.json", help="JSON file (default: %(default)s)")
    options = parser.parse_args(arguments)
    os.nice(10)  # lowers the priority, also of the server, because speed is not measured here
    with serving() as (address, process):
        work = soak(
            Site(address),
            process,
            specdec.load_pair("stories"),
            options.minutes,
            options.visitors,
            options.pause,
        )
        write(options.out, asyncio.run(work))


if __name__ == "__main__":
    main()
