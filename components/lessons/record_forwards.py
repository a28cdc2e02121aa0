"""Record the times that lesson 0 states: `python -m components.lessons.record_forwards`.

The model is SmolLM2, with which the page opens, on one thread. Each pass times all numbers of rows.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import torch

from components.lessons.forward import PROMPT, Forwards
from components.page.assets import ASSETS
from specdec.devices import machine

if TYPE_CHECKING:
    from specdec.pair import Pair

RECORDED = ASSETS / "results" / "forward.json"
PASSES = 300


def main() -> None:
    """Measure the forwards and write `RECORDED`."""
    import specdec

    torch.set_num_threads(1)
    RECORDED.write_text(json.dumps(record(specdec.load_pair("smollm2", device="cpu"))) + "\n")
    print(f"written: {RECORDED}\n{RECORDED.read_text()}")


def record(pair: Pair, passes: int = PASSES) -> dict[str, Any]:
    """Measure the pair's target. The record's `target` is the result of `Forwards.fastest`."""
    forwards = Forwards(pair.target, pair.encode(PROMPT))
    for _ in range(passes):
        forwards.one_pass()
    about: dict[str, Any] = {"machine": machine(pair.target.device) | {"load": round(os.getloadavg()[0], 2)}}
    about |= {"passes": passes, "threads": 1, "arithmetic": pair.arithmetic}
    return about | {"target": forwards.fastest()}


if __name__ == "__main__":
    main()
