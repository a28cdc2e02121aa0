"""Many visitors at once: `python -m tests.stress.load`, about a minute on two cores.

40 visitors press Generate at the same moment and 200 open a recorded run meanwhile, all on the real app in a
process of its own. Every text is compared with what its seed and topology give alone.

With `--cold` nothing has run on the server before: a class presses Generate with the settings that the page
opens with, once the server is idle after its start. Its file is `load.cold.json`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from collections.abc import Sequence
from statistics import median
from typing import Any

import httpx
import psutil

import specdec
from tests.stress.visitors import PROMPT, RESULTS, ROOT, Site, Visit, client, serving, write

METHODS = ("ersd", "gsd", "ersd", "ar")


def as_opened(visitor: int, length: int) -> dict[str, Any]:
    """The request of a student who presses Generate on the opened page; the seeds differ."""
    return {"method": "ersd", "topology": "optimal", "k": 8, "length": length, "seed": visitor}


def asked(visitor: int, length: int) -> dict[str, Any]:
    """The settings of one visitor: prompts, seeds and methods differ, the length does not."""
    prompts = [PROMPT, *(ROOT / "assets" / "prompts.txt").read_text().splitlines()[:39]]
    choice = {"prompt": prompts[visitor % len(prompts)], "method": METHODS[visitor % len(METHODS)]}
    return as_opened(visitor, length) | choice


def alone(pair: Any, visit: Visit) -> list[int]:
    """The tokens that a run with these settings gives by itself."""
    setup = visit.setup
    names = ("method", "max_new_tokens", "temperature", "top_k", "top_p", "seed")
    topology = specdec.Topology(setup["paths"])
    settings = {name: setup[name] for name in names}
    return specdec.generate(pair, setup["prompt"], topology=topology, **settings).token_ids


async def together(
    site: Site, generating: int, replaying: int, length: int, cold: bool = False
) -> tuple[list[Visit], list[float]]:
    """Let all visitors come at once. Returns the runs of those who generate and the seconds of those who
    replay.

    cold: they are the first on this server and use the page's settings.
    """
    async with client(site.address) as http:
        if not cold:
            # this loads the models and measures the trees
            await site.generate(http, length=2, topology="optimal")
            await site.generate(http, length=2, topology="optimal", method="gsd")
        settings = as_opened if cold else asked
        runs = [site.generate(http, **settings(visitor, length)) for visitor in range(generating)]
        replays = [_later(site, http, 5 * visitor / max(replaying, 1)) for visitor in range(replaying)]
        results = await asyncio.gather(*runs, *replays)
    return results[:generating], results[generating:]


async def _later(site: Site, http: httpx.AsyncClient, seconds: float) -> float:
    await asyncio.sleep(seconds)
    return await site.replay(http)


def report(visits: Sequence[Visit], replays: Sequence[float], pair: Any) -> dict[str, Any]:
    """The figures. `different` and `failures` must be empty, and `slowest_over_median` at most 2."""
    seconds = sorted(visit.seconds for visit in visits)
    first = [visit.first_token_seconds for visit in visits if visit.first_token_seconds is not None]
    complete = [i for i, visit in enumerate(visits) if not visit.failure]
    return {
        "generating": len(visits),
        "failures": [visit.failure for visit in visits if visit.failure],
        "different": [i for i in complete if visits[i].token_ids != alone(pair, visits[i])],
        "tokens": (tokens := sum(len(visit.token_ids) for visit in visits)),
        "tokens_per_second": tokens / seconds[-1],
        "seconds": {"fastest": seconds[0], "median": median(seconds), "slowest": seconds[-1]},
        "slowest_over_median": seconds[-1] / median(seconds),
        "first_token_seconds": {"median": median(first), "slowest": max(first)},
        "told_a_place": sum(bool(visit.places) for visit in visits),
        "replaying": len(replays),
        "replay_seconds": {"median": median(replays), "slowest": max(replays)} if replays else None,
    }


def _wait_until_idle(process: psutil.Process) -> None:
    """Wait until the server has loaded and measured its models, as before a class begins."""
    end = time.monotonic() + 180
    while process.cpu_percent(3) > 10 and time.monotonic() < end:
        pass


def _busy(process: psutil.Process) -> float:
    """Seconds of processor time that a process has used. Other work on the machine does not count."""
    times = process.cpu_times()
    return times.user + times.system


def main() -> None:
    """Serve, visit, compare, and write the report."""
    parser = argparse.ArgumentParser(description="Many visitors at once.")
    parser.add_argument("--generating", type=int, default=40, help="visitors who generate (default: 40)")
    parser.add_argument("--replaying", type=int, default=200, help="visitors who replay (default: 200)")
    parser.add_argument("--length", type=int, default=64, help="tokens of each run (default: 64)")
    parser.add_argument("--cold", action="store_true", help="a class's first click on a fresh server")
    parser.add_argument("--out", help="JSON file (default: load.json or load.cold.json of the results)")
    options = parser.parse_args()
    with serving() as (address, process):
        site = Site(address)
        if options.cold:
            _wait_until_idle(process)
        before, start, busy = process.memory_info().rss, time.monotonic(), _busy(process)
        visits, replays = asyncio.run(
            together(site, options.generating, options.replaying, options.length, options.cold)
        )
        print(f"{time.monotonic() - start:.0f} s; comparing with runs alone …", flush=True)
        memory = {"before": before >> 20, "after": process.memory_info().rss >> 20}
        busy = _busy(process) - busy
    figures = report(visits, replays, specdec.load_pair("stories")) | {
        "server_megabytes": memory,
        "server_processor_seconds": busy,
        "load_average": os.getloadavg()[0],
        "length": options.length,
    }
    write(options.out or RESULTS / f"load{'.cold' if options.cold else ''}.json", figures)


if __name__ == "__main__":
    main()
