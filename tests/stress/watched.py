"""What watching costs: tokens per second with a browser on the page, beside those of the decoder alone.

    python -m tests.stress.watched

Both decode the same texts on one thread, in turn; the page records every race and every drafted token, sends
them and draws them, the decoder alone does not. Its time is that of the decoding: with the page, from the
update that tells of the prompt's tokens to the one with the last round, as they arrive in the page; without,
from asking for the first round to having the last. Both contain the prompt's own evaluation. What the browser
is asked for meanwhile is nothing: no test looks at the page until the run is done.
"""

from __future__ import annotations

import argparse
import os
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

SETTLED = 5000
"""Milliseconds after which a page is at rest: Gradio's opening animation runs on for about three seconds."""

# The store tells of every update. A promise keeps the moments: to look for them would have the page draw.
_WATCH = """() => {
  let start, end, tokens = 0;
  window.watched = new Promise((done, failed) => {
    window.specdec.store.subscribe(({ phase, setup, rounds, recorded, message }) => {
      if (phase === "error") failed(new Error(message));
      if (recorded || !setup?.prompt_ids) return;
      start ??= performance.now();
      const sum = rounds.reduce((sum, { tokens }) => sum + tokens.length, 0);
      if (sum > tokens) [tokens, end] = [sum, performance.now()];
      if (phase === "done") done({ tokens, seconds: (end - start) / 1000 });
    });
  });
}"""


def watched(page: Page, address: str, method: str, length: int, seed: int) -> float:
    """Tokens per second of a run that the page shows."""
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
    page.wait_for_timeout(SETTLED)
    page.evaluate(_WATCH)
    page.get_by_role("button", name="Generate").click()
    run = page.evaluate("window.watched")
    page.goto("about:blank")
    return run["tokens"] / run["seconds"]


def alone(pair: specdec.ModelPair, method: str, length: int, seed: int) -> float:
    """Tokens per second of the same run without a page."""
    run = specdec.stream(
        pair,
        PROMPT,
        method=method,
        topology=specdec.topology.sequence(K),
        max_new_tokens=length,
        seed=seed,
        detail=False,
    )
    start = time.perf_counter()
    tokens = sum(len(round.tokens) for round in run)
    return tokens / (time.perf_counter() - start)


def compare(page: Page, address: str, repeats: int, length: int) -> dict[str, Any]:
    """Both in turn; the ratio is the median of the pairs of runs. load: that of the machine before them."""
    pair = specdec.load_pair()
    found: dict[str, Any] = {"load": os.getloadavg()[0]}
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
    parser.add_argument("--repeats", type=int, default=12, help="runs of each method (default: 12)")
    parser.add_argument("--length", type=int, default=300, help="tokens of a run (default: 300)")
    parser.add_argument("--out", default=RESULTS / "watched.json", help="JSON file (default: %(default)s)")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"  # the server's: both decode on one thread
    with serving() as (address, _), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        context.set_default_timeout(SLOW)
        write(options.out, compare(context.new_page(), address, options.repeats, options.length))
        browser.close()


if __name__ == "__main__":
    main()
