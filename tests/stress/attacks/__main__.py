"""`python -m tests.stress.attacks [NAME ...] [--smoke]`: each attack with an honest visitor's wait beside it.

The server is started as a user would, for each attack anew. The wait is that of a short run of the page
through the queue, and of the page itself, each time from an address of its own; the median of several.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import inspect
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from tests.stress.visitors import RESULTS, ROOT, Site, client, serving, write

SECONDS = 20.0
"""Of an attack."""
LEAD = 4.0
"""Seconds of it before the honest visitors come."""
VISITS = 5
"""Honest visitors without and with an attack, one after the other."""
GOAL = 2.0
"""The wait with an attack is to be below so many times the wait without."""
_sources = (f"127.0.{number // 200}.{number % 200 + 2}" for number in count())


def known() -> dict[str, Any]:
    """All attacks by name."""
    modules = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if path.stem[0] != "_")
    attacks = {}
    for name in modules:
        attacks |= importlib.import_module(f"tests.stress.attacks.{name}").ATTACKS
    return attacks


async def wait(site: Site, visits: int) -> dict[str, Any]:
    """Seconds of a short run and of the page, the medians of so many normal visitors; and the errors."""
    runs, pages, failures = [], [], []
    for _ in range(visits):
        async with client(site.address, source=next(_sources)) as http:
            start = time.monotonic()
            try:
                async with asyncio.timeout(120):
                    (await http.get("/")).raise_for_status()
                    pages.append(time.monotonic() - start)
                    visit = await site.generate(http)
                    if visit.failure:
                        failures.append(visit.failure)
                    else:
                        runs.append(visit.seconds)
            except Exception as error:
                failures.append(f"{type(error).__name__}: {error}")
    return {
        "run": median(runs) if runs else None,
        "page": median(pages) if pages else None,
        "failures": failures,
        "visits": visits,
    }


@contextmanager
def attacked(name: str, url: str, seconds: float) -> Iterator[dict[str, Any]]:
    """Run an attack in its own process while the block runs. Its result is there at the end."""
    command = [sys.executable, "-m", "tests.stress.attacks", "--only", name, url, str(seconds)]
    attacker = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    got: dict[str, Any] = {}
    try:
        yield got
        output, _ = attacker.communicate(timeout=seconds + 60)
        got["got"] = json.loads(output.splitlines()[-1]) if output else f"ended with {attacker.returncode}"
    except subprocess.TimeoutExpired:
        got["got"] = "the attacker did not end"
    finally:
        attacker.kill()
        attacker.wait()


@contextmanager
def attacked_from_here(name: str, url: str, seconds: float) -> Iterator[dict[str, Any]]:
    """The same on a thread of this process, which starts faster."""
    got: dict[str, Any] = {}
    thread = threading.Thread(target=lambda: got.update(got=made(name, url, seconds)), daemon=True)
    thread.start()
    yield got
    thread.join(seconds + 60)
    got.setdefault("got", "the attacker did not end")


@contextmanager
def watched(process: psutil.Process) -> Iterator[list[int]]:
    """The megabytes of a process's memory, measured twice a second."""
    samples, over = [process.memory_info().rss >> 20], threading.Event()

    def sample() -> None:
        while not over.wait(0.5) and process.is_running():
            samples.append(process.memory_info().rss >> 20)

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield samples
    finally:
        over.set()
        thread.join()


def measured(
    name: str,
    site: Site,
    process: psutil.Process,
    seconds: float,
    without: dict[str, Any],
    begin: Any = attacked,
) -> dict[str, Any]:
    """Run one attack on a server that `begin` starts: the waits of normal visitors without and with it, and
    their ratios."""
    with watched(process) as megabytes, begin(name, site.address, seconds) as attack:
        time.sleep(min(LEAD, seconds / 4))
        during = asyncio.run(wait(site, without["visits"]))
    return {
        "attack": name,
        "without": without,
        "with": during,
        "ratio": {what: _ratio(during[what], without[what]) for what in ("run", "page")},
        "megabytes": {"before": megabytes[0], "most": max(megabytes)},
        "attacker": attack["got"],
    }


def _ratio(after: float | None, before: float | None) -> float | None:
    return None if after is None or before is None else after / before


def row(figures: dict[str, Any]) -> str:
    """One line of the table."""
    cells = [f"{figures['attack']:18}"]
    for what in ("run", "page"):
        numbers = figures["without"][what], figures["with"][what], figures["ratio"][what]
        cells += ["never".rjust(7) if number is None else f"{number:7.2f}" for number in numbers]
    cells += [f"{figures['megabytes'][when]:6}" for when in ("before", "most")]
    return " ".join(cells) + f"  {str(figures['attacker'])[:60]}"


HEAD = (
    f"{'':18} {'run: without, with, ratio':>23} {'page: without, with, ratio':>23}  MB before, most  attacker"
)


def main(arguments: list[str] | None = None) -> None:
    """Serve, attack, visit, and write the report."""
    parser = argparse.ArgumentParser(description="An honest visitor's wait under attack.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(known())} (default: all)")
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help="of each attack (default: %(default)s)"
    )
    parser.add_argument("--smoke", action="store_true", help="a second of each, on one server")
    parser.add_argument("--only", nargs=3, metavar=("NAME", "URL", "SECONDS"), help=argparse.SUPPRESS)
    parser.add_argument("--out", default=RESULTS / "attacks.json", help="JSON file (default: %(default)s)")
    options = parser.parse_args(arguments)
    if options.only:
        name, url, seconds = options.only
        attack(name, url, float(seconds))
        return
    if unknown := set(options.names) - set(known()):
        parser.error(f"{', '.join(unknown)}: none of {', '.join(known())}")
    names = options.names or list(known())
    rows = smoke(names) if options.smoke else full(names, options.seconds)
    old = json.loads(Path(options.out).read_text())["attacks"] if Path(options.out).exists() else []
    merged = {row["attack"]: row for row in [*old, *({"seconds": options.seconds} | row for row in rows)]}
    write(options.out, {"goal": GOAL, "attacks": list(merged.values())})


def attack(name: str, url: str, seconds: float) -> None:
    """Attack from this process and print the result. Its work must not slow down the server."""
    os.nice(10)
    print(json.dumps(made(name, url, seconds)), flush=True)


def made(name: str, url: str, seconds: float) -> Any:
    """Run an attack in this process and return its result."""
    got = known()[name](url, seconds)
    return asyncio.run(got) if inspect.iscoroutine(got) else got


def full(names: list[str], seconds: float) -> list[dict[str, Any]]:
    """Run each attack against a server of its own."""
    rows = []
    print(HEAD, flush=True)
    for name in names:
        with serving() as (url, process):
            site = Site(url)
            asyncio.run(wait(site, 1))  # loads the models
            without = asyncio.run(wait(site, VISITS))
            rows.append(measured(name, site, process, seconds, without))
        print(row(rows[-1]), flush=True)
    return rows


def smoke(names: list[str], seconds: float = 0.5) -> list[dict[str, Any]]:
    """Run every attack for a moment, one after the other against the same server."""
    with serving() as (url, process):
        site = Site(url)
        asyncio.run(wait(site, 1))  # loads the models
        without = asyncio.run(wait(site, 1))
        return [measured(name, site, process, seconds, without, attacked_from_here) for name in names]


if __name__ == "__main__":
    main()
