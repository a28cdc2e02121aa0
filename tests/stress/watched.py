"""What watching costs: tokens per second with the page attached, beside those of the decoder alone.

    python -m tests.stress.watched
    python -m tests.stress.watched --pair smollm2 --length 128

The same texts are decoded on one thread, in turn. For the page every race and every drafted token is recorded
and sent, for the decoder alone not. The page is attached in two ways:

here       Chromium on the machine that decodes draws everything, on the same cores
elsewhere  a visitor receives all that the page would and draws nothing: the browser is on another machine

Their time is that of the decoding: from the update that tells of the prompt's tokens to the one with the
last round, as they arrive; alone, from asking for the first round to having the last. All contain the
prompt's own evaluation. Meanwhile the browser is asked for nothing: no test looks at the page until the run
is done.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlencode

import torch
from playwright.sync_api import Page

import specdec
from tests.conftest import DESKTOP
from tests.stress.drawing import chromium, visiting
from tests.stress.visitors import PROMPT, RESULTS, Site, Visit, client, write

K = 4
SETTLED = 5000
"""Milliseconds after which a page no longer moves: Gradio's opening animation takes about three seconds."""

# The store announces every update. A promise keeps their times, because asking for them would make the page
# draw.
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
    setup = {"prompt": PROMPT, "topology": "sequence", "k": K, "temperature": 1, "baseline": 0}
    setup |= {"method": method, "length": length, "seed": seed}
    page.goto(f"{address}/?{urlencode(setup)}")
    page.wait_for_function("window.specdec && document.querySelector('#text .token')")
    page.wait_for_timeout(SETTLED)
    page.evaluate(_WATCH)
    page.get_by_role("button", name="Generate").click()
    run = page.evaluate("window.watched")
    page.goto("about:blank")
    return run["tokens"] / run["seconds"]


def received(site: Site, method: str, length: int, seed: int) -> float:
    """Tokens per second of a run whose updates are received but not drawn."""

    async def visit() -> Visit:
        async with client(site.address) as http:
            return await site.generate(http, method=method, k=K, length=length, seed=seed, temperature=1)

    with ThreadPoolExecutor(1) as thread:  # this thread may already have the browser's event loop
        visit_made = thread.submit(asyncio.run, visit()).result()
    if visit_made.failure:
        raise RuntimeError(visit_made.failure)
    updates = list(zip(visit_made.updates, visit_made.moments, strict=True))
    start = next(moment for update, moment in updates if (update.get("setup") or {}).get("prompt_ids"))
    end = next(moment for update, moment in reversed(updates) if update["rounds"])
    return len(visit_made.token_ids) / (end - start)


def alone(pair: specdec.ModelPair, method: str, length: int, seed: int) -> float:
    """Tokens per second of the same run without a page."""
    run = specdec.stream(
        pair,
        pair.chat_prompt(PROMPT) if pair.chats else PROMPT,
        method=method,
        topology=specdec.topology.sequence(K),
        max_new_tokens=length,
        seed=seed,
        detail=False,
    )
    start = time.perf_counter()
    tokens = sum(len(round.tokens) for round in run)
    return tokens / (time.perf_counter() - start)


def compare(page: Page, address: str, name: str, repeats: int, length: int) -> dict[str, Any]:
    """Measure all three in turn on the pair with this name. A ratio is the median of the runs' ratios. load:
    the machine's load before them."""
    pair, site = specdec.load_pair(name), Site(address)
    figures: dict[str, Any] = {"load": os.getloadavg()[0]}
    for method in ("ersd", "gsd"):
        alone(pair, method, length, 0)  # the first run of a process is slower
        ours, elsewhere, by_itself = [], [], []
        for seed in range(1, repeats + 1):
            ours.append(watched(page, address, method, length, seed))
            elsewhere.append(received(site, method, length, seed))
            by_itself.append(alone(pair, method, length, seed))
        figures[method] = {
            "alone_tokens_per_second": statistics.median(by_itself),
            "here": _beside(ours, by_itself),
            "elsewhere": _beside(elsewhere, by_itself),
        }
    return figures


def _beside(attached: Sequence[float], by_itself: Sequence[float]) -> dict[str, Any]:
    ratios = [one / other for one, other in zip(attached, by_itself, strict=True)]
    return {
        "tokens_per_second": statistics.median(attached),
        "ratio": statistics.median(ratios),
        "ratios": sorted(round(ratio, 3) for ratio in ratios),
    }


def main() -> None:
    """Serve, watch, receive, decode, and write the report."""
    parser = argparse.ArgumentParser(description="Tokens per second with the page attached and without.")
    parser.add_argument("--pair", choices=("stories", "smollm2"), default="stories")
    parser.add_argument("--repeats", type=int, default=12, help="runs of each method (default: 12)")
    parser.add_argument("--length", type=int, default=300, help="tokens of a run (default: 300)")
    parser.add_argument("--out", help="JSON file (default: watched.json or watched.smollm2.json)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    out = options.out or RESULTS / ("watched.json" if options.pair == "stories" else "watched.smollm2.json")
    with chromium(options.pair) as (browser, address), visiting(browser, DESKTOP) as page:
        write(out, compare(page, address, options.pair, options.repeats, options.length))


if __name__ == "__main__":
    main()
