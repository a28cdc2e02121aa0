"""Visitors over a long time: `python -m tests.stress.soak --minutes 30`.

A few visitors at a time generate, replay, leave early or send nonsense, while the server's memory is sampled.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import Counter
from typing import Any

import numpy as np
import psutil

import specdec
from tests.stress.fuzz import Fuzzer
from tests.stress.load import alone, asked
from tests.stress.visitors import Site, client, options, serving, stream, write

SAMPLE_EVERY = 10.0
"""Seconds between two samples of the memory."""


async def soak(
    site: Site, process: psutil.Process, pair: Any, minutes: float, pause: float = 4.0
) -> dict[str, Any]:
    """Let three visitors come for this long. Returns their actions, failures, and the memory over time.

    pause: the most seconds between two actions of one visitor.
    """
    start, draw, samples = time.monotonic(), random.Random(0), []
    counts, failures, different = Counter[str](), [], []

    async def generate() -> None:
        settings = asked(draw.randrange(1000), draw.randint(2, 96))
        visit = await site.generate(http, **settings)
        if visit.failure:
            failures.append(visit.failure)
        else:
            expected = await asyncio.to_thread(alone, pair, visit)
            different.append(visit.token_ids != expected)

    async def leave() -> None:
        async for _ in stream(http, "decode", site.defaults):
            return

    async def visitor() -> None:
        while time.monotonic() < start + 60 * minutes:
            name = draw.choice([*5 * ["generate"], *2 * ["replay"], "leave", "nonsense"])
            await actions[name]()
            counts[name] += 1
            await asyncio.sleep(pause * draw.random())

    async def sample() -> None:
        while (seconds := time.monotonic() - start) < 60 * minutes:
            samples.append((round(seconds / 60, 2), process.memory_info().rss >> 20))
            print(f"{seconds / 60:.1f} min, {samples[-1][1]} MB, {dict(counts)}", flush=True)
            await asyncio.sleep(min(SAMPLE_EVERY, 20 * minutes))

    # a closed tab has no connection, and the page keeps none open by itself (`connect_heartbeat`)
    async with client(site.address, keep=0) as http:
        fuzzer = Fuzzer(site, http, seed=0)
        actions = {"generate": generate, "replay": lambda: site.replay(http)}
        actions |= {"leave": leave, "nonsense": fuzzer.one}
        await asyncio.gather(sample(), *(visitor() for _ in range(3)))
    return {
        "minutes": minutes,
        "done": dict(counts),
        "failures": failures,
        "different": sum(different),
        "faults": fuzzer.found.faults,
        "megabytes_per_minute_in_the_second_half": growth(samples),
        "megabytes": samples,
    }


def growth(samples: list[tuple[float, int]]) -> float:
    """The slope of the second half's samples in megabytes per minute."""
    minutes, megabytes = np.array(samples[len(samples) // 2 :]).T
    return float(np.polyfit(minutes, megabytes, 1)[0]) if len(minutes) > 1 else 0.0


def main() -> None:
    """Serve, visit, sample, and write the report."""
    about = "Visitors for a long time, and the server's memory."
    arguments = options(about, "soak.json", minutes=(30.0, "how long"))
    os.nice(10)  # lowers the priority, also of the server, because speed is not measured here
    with serving() as (address, process):
        work = soak(Site(address), process, specdec.load_pair("stories"), arguments.minutes)
        write(arguments.out, asyncio.run(work))


if __name__ == "__main__":
    main()
