"""A results file that was never measured: few bytes that take long to summarise."""

from __future__ import annotations

import json

from specdec.experiments.plan import Plan
from specdec.experiments.settings import Settings


def results(most: int, points: int, tokens: int = 1) -> str:
    """The lines of a finished calibration: so many points of each strategy, the last at k = most."""
    grid = tuple(range(most - points + 1, most + 1))
    grids = dict.fromkeys(("sequence", "batch", "specinfer", "optimal"), grid)
    small = {"max_new_tokens": 100_000, "tokens": tokens, "positions": 0}
    settings = Settings(prompts=("",), **small, **grids)
    stated = small | {name: list(grid) for name in grids} | {"prompts": 1, "methods": ["gsd", "ersd"]}
    pair = {"target": "t", "draft": "d", "vocab_size": 2048}
    lines = [{"settings": stated, "pair": pair, "versions": {}}]
    for item in Plan(settings, []).calibration:
        # acceptance that falls slowly, so that trees are broad and deep
        reached = [1000] * 40 if item.point.strategy == "batch" else [1000]
        accepted = [900, *[2] * 39] if item.point.strategy == "batch" else [900]
        run = {"method": item.point.method, "tree": item.tree, "prompt": 0, "repeat": 0}
        counts = {"lengths": [0, 1], "offered": reached, "reached": reached, "accepted": accepted}
        lines.append(run | {"tokens": tokens, "rounds": 1} | counts)
    return "".join(json.dumps(line) + "\n" for line in lines)
