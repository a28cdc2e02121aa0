"""Record the times that the first lesson states: `python -m components.lessons.record_forwards`.

The times are of one forward pass of SmolLM2's target over 1, 2, 4, 8 and 16 rows, on one thread. A row is a
token. All rows share one reading of the weights, so checking several drafted tokens can cost little more than
generating one.
"""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

import torch

from components.page.assets import ASSETS
from specdec.devices import machine

if TYPE_CHECKING:
    from specdec.pair import Pair

RECORDED = ASSETS / "results" / "forward.json"
ROWS = (1, 2, 4, 8, 16)
PROMPT = "Once upon a time, there was a little girl named Lily."
PREFIX = 32
"""Number of tokens of text before the rows that are measured. The prompt is repeated until it has this
length."""
PASSES = 300


def main() -> None:
    """Measure the forward passes, and write their times to the file `RECORDED`."""
    import specdec

    torch.set_num_threads(1)
    RECORDED.write_text(
        json.dumps(record(specdec.load_pair("smollm2", device="cpu"))) + "\n", encoding="utf-8"
    )
    print(f"written: {RECORDED}\n{RECORDED.read_text(encoding='utf-8')}")


def record(pair: Pair, passes: int = PASSES) -> dict[str, Any]:
    """Measure the pair's target. The record's `target` has [rows, milliseconds] of the fastest pass, because
    other work on the machine only makes passes slower."""
    prompt = pair.encode(PROMPT)
    ids = [prompt[i % len(prompt)] for i in range(PREFIX + max(ROWS))]
    session = pair.target.session()
    session.prefill(ids[:PREFIX])
    milliseconds: dict[int, list[float]] = {count: [] for count in ROWS}
    for _ in range(passes):
        for count, times in milliseconds.items():
            rows = torch.tensor(ids[PREFIX : PREFIX + count])
            start = time.perf_counter()
            session.forward(rows, range(-1, count - 1))  # row i follows row i - 1, like drafts in a sequence
            times.append(1000 * (time.perf_counter() - start))
            session.commit([])
    facts: dict[str, Any] = {"machine": machine(pair.target.device) | {"load": round(os.getloadavg()[0], 2)}}
    facts |= {"passes": passes, "threads": 1, "arithmetic": pair.arithmetic}
    return facts | {"target": [[count, round(min(times), 4)] for count, times in milliseconds.items()]}


if __name__ == "__main__":
    main()
