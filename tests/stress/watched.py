"""What watching costs: tokens per second with a browser on the page, beside those of the decoder alone.

    python -m tests.stress.watched

Both decode the same texts on one thread, in turn; the page records every race and every drafted token, sends
them and draws them, the decoder alone does not.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any
from urllib.parse import urlencode

import torch
from playwright.sync_api import Page, sync_playwright

import specdec
from tests.conftest import CHROMIUM, FLAGS, SLOW
from tests.stress.visitors import PROMPT, RESULTS, serving, write

K = 4

# The store tells of every update; the moments are those of the first and of the last one of the run.
_WATCH = """() => {
  const seen = window.seen = {};
  window.specdec.store.subscribe(({ phase, rounds }) => {
    if (phase === "running") seen.start ??= performance.now();
    if (phase === "done" && seen.start) {
      seen.end ??= performance.now();
      seen.tokens = rounds.reduce((sum, { tokens }) => sum + tokens.length, 0);
    }
  });
}"""


def watched(page: Page, address: str, method: str, length: int, seed: int) -> float:
    """Tokens per second of a run that the page shows, from its first update to its last."""
    setup = {
        "prompt": PROMPT,
        "method": method,
        "topology": "sequence",
        "k": K,
        "length": length,
        "seed": seed,
    }
    page.goto(f"{address}/?{urlencode(setup | {'baseline': 0})}")
    page.wait_for_function("window.specdec && document.querySelector('#text .token')")
    page.wait_for_timeout(1500)  # what opening the page costs is not asked for here
    page.evaluate(_WATCH)
    page.get_by_role("button", name="Generate").click()
    page.wait_for_function("window.seen.end")
    seen = page.evaluate("window.seen")
    return 1000 * seen["tokens"] / (seen["end"] - seen["start"])


def alone(pair: specdec.ModelPair, method: str, length: int, seed: int) -> float:
    """Tokens per second of the same run without a page."""
    start = time.perf_counter()
    generation = specdec.generate(
        pair, PROMPT, method=method, topology=specdec.topology.sequence(K), max_new_tokens=length, seed=seed
    )
    return len(generation.token_ids) / (time.perf_counter() - start)


def compare(page: Page, address: str, repeats: int, length: int) -> dict[str, Any]:
    """Both in turn; the ratio is the median of the pairs of runs."""
    pair = specdec.load_pair()
    found = {}
    for method in ("ersd", "gsd"):
        alone(pair, method, length, 0)  # the first run of a process is slower
        runs = [
            (watched(page, address, method, length, seed), alone(pair, method, length, seed))
            for seed in range(1, repeats + 1)
        ]
        found[method] = {
            "watched_tokens_per_second": statistics.median(run[0] for run in runs),
            "alone_tokens_per_second": statistics.median(run[1] for run in runs),
            "ratio": statistics.median(run[0] / run[1] for run in runs),
            "ratios": sorted(round(run[0] / run[1], 3) for run in runs),
        }
    return found


def main(arguments: list[str] | None = None) -> None:
    """Serve, watch, decode, write."""
    parser = argparse.ArgumentParser(description="Tokens per second with the page attached and without.")
    parser.add_argument("--repeats", type=int, default=8, help="runs of each method (default: 8)")
    parser.add_argument("--length", type=int, default=300, help="tokens of a run (default: 300)")
    parser.add_argument("--out", default=RESULTS / "watched.json", help="JSON file (default: %(default)s)")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    with serving() as (address, _), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        context.set_default_timeout(SLOW)
        write(options.out, compare(context.new_page(), address, options.repeats, options.length))
        browser.close()


if __name__ == "__main__":
    main()
