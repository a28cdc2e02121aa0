"""What one visitor sees who presses Generate again and again: the speed beside plain decoding, as the page
shows it, and the wait for the first token.

    SPECDEC_MODELS=FOLDER python -m tests.stress.presses --pair coder

Each press has its own seed and the next of the questions. All other settings are those of the page.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Sequence
from typing import Any

from components.runs.timing import medians
from tests.stress.visitors import ROOT, Site, Visit, client, options, serving, write

QUESTIONS = ROOT / "assets" / "code_questions.txt"
FIRST_SEED = 100


async def presses(site: Site, count: int, questions: Sequence[str], wait: float) -> list[Visit]:
    """The visits of this many presses. The first one waits `wait` seconds, until the pair is loaded.

    One press before them is not counted."""
    await asyncio.sleep(wait)
    async with client(site.address) as http:
        visits = []
        for i in range(count + 1):
            own = {"prompt": questions[i % len(questions)], "baseline": True, "seed": FIRST_SEED + i}
            visits.append(await site.generate(http, **site.defaults | own))
    return visits[1:]


def speed(visit: Visit) -> float:
    """How many times as fast as plain decoding the run was, as the page shows it."""
    timings = next(update["timings"] for update in reversed(visit.updates) if update.get("timings"))
    run, plain = (medians([timing[name] for timing in timings]) for name in ("run", "plain"))
    return sum(plain) / len(plain) / (sum(run) / len(visit.token_ids))


def report(visits: Sequence[Visit]) -> dict[str, Any]:
    """The figures of the visits; speeds in the order of the presses."""
    speeds = [speed(visit) for visit in visits]
    return {
        "target": next(each["name"] for each in visits[-1].setup["models"] if each["role"] == "target"),
        "speeds": speeds,
        "least": min(speeds),
        "median": statistics.median(speeds),
        "slowest_first_token_seconds": max(visit.first_token_seconds or 0.0 for visit in visits),
    }


def main() -> None:
    """Serve, press, and write the report."""
    about, chosen = "One visitor who presses Generate again and again.", ("stories", "the server's pair")
    arguments = options(about, "presses.json", pair=chosen, presses=(20, "how many"))
    questions = QUESTIONS.read_text().splitlines()
    with serving(pair=arguments.pair) as (address, process):
        visits = asyncio.run(presses(Site(address), arguments.presses, questions, wait=30.0))
        megabytes = process.memory_info().rss / 1e6
    write(arguments.out, report(visits) | {"megabytes": megabytes})


if __name__ == "__main__":
    main()
