"""How fast "auto" is beside fixed trees.

    python -m research.auto --target stories --repeats 5

The same prompt and seed is decoded on every tree in turn, after one run of each that does not count. A ratio
is the best fixed tree's seconds per token over those of "auto", of the whole text and from the 65th token on;
in wall-clock time and in processor time, which other work on the machine hardly changes.
"""

from __future__ import annotations

import time
from statistics import median
from typing import NamedTuple

import torch

import specdec
from specdec.commands import Parser, add_pair, columns, ended
from specdec.decoding.run import Run
from specdec.loading import load_with_progress
from specdec.settings import add_options
from specdec.topology import Topology, named

FIXED = ("plain", "sequence(1)", "sequence(2)", "sequence(4)", "sequence(6)", "specinfer(8)")
WARM = 64
"""Tokens after which the second part of a text begins."""


class Timed(NamedTuple):
    """Wall-clock and processor seconds per token: of the text without its first round, and after `WARM`."""

    whole: tuple[float, float]
    later: tuple[float, float]


def main() -> None:
    """Measures and prints."""
    parser = Parser(prog="python -m research.auto", description=__doc__)
    add_pair(parser)
    parser.add_argument("--prompt", default="Once upon a time", help="default: %(default)s")
    parser.add_argument("--repeats", type=int, default=5, help="seeds (default: %(default)s)")
    parser.add_argument("--useless", action="store_true", help="shuffle the draft's weights")
    add_options(parser, "method", "max_new_tokens", "temperature")
    parser.set_defaults(max_new_tokens=256)
    options = parser.parse_args()
    pair = load_with_progress(options)
    pair.eos_ids = frozenset()  # all texts are equally long
    if options.useless:
        _shuffle(pair)
    ids = pair.chat_prompt(options.prompt) if pair.chats else pair.encode(options.prompt)
    names = (*FIXED, "auto")
    times: dict[str, list[Timed]] = {name: [] for name in names}
    settings = {name: getattr(options, name) for name in ("method", "max_new_tokens", "temperature")}
    for seed in range(-1, options.repeats):
        for name in names if seed % 2 else reversed(names):
            tree = Topology([]) if name == "plain" else name if name == "auto" else named(name)
            run = specdec.stream(pair, ids, topology=tree, seed=max(seed, 0), detail=False, **settings)
            found = timed(run)
            if seed >= 0:
                times[name].append(found)
    print(table(times))


def timed(run: Run) -> Timed:
    """Decodes a run. Its first round, which takes in the prompt, does not count."""
    clocks, tokens = [_now()], [0]
    next(run)
    clocks[0] = _now()
    for round in run:
        tokens.append(tokens[-1] + len(round.tokens))
        clocks.append(_now())
    middle = next(i for i, count in enumerate(tokens) if count >= WARM)
    return Timed(_each(clocks, tokens, 0), _each(clocks, tokens, middle))


def table(times: dict[str, list[Timed]]) -> str:
    """Medians of milliseconds per token, and what "auto" reaches of the best fixed tree, by the repeats."""
    rows = [
        ["", *(f"{part}, {clock}" for part in ("all", f"after {WARM}") for clock in ("wall", "processor"))]
    ]
    parts = [(part, clock) for part in (0, 1) for clock in (0, 1)]
    best: dict[tuple[int, int], tuple[float, str]] = {}
    for name, each in times.items():
        found = [median(run[part][clock] for run in each) for part, clock in parts]
        rows.append([name, *(f"{1000 * seconds:.2f}" for seconds in found)])
        if name != "auto":
            best = {
                key: min(best.get(key, (seconds, name)), (seconds, name))
                for key, seconds in zip(parts, found, strict=True)
            }
    ratios = ["auto / best"]
    for part, clock in parts:
        other = times[best[part, clock][1]]
        pairs = zip(other, times["auto"], strict=True)
        found = sorted(fixed[part][clock] / auto[part][clock] for fixed, auto in pairs)
        ratios.append(f"{median(found):.2f} ({found[0]:.2f} to {found[-1]:.2f})")
    return columns([*rows, ratios], markdown=True)


def _now() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def _each(clocks: list[tuple[float, float]], tokens: list[int], start: int) -> tuple[float, float]:
    """Seconds per token from this round to the end."""
    wall, processor = (
        (end - begin) / (tokens[-1] - tokens[start])
        for begin, end in zip(clocks[start], clocks[-1], strict=True)
    )
    return wall, processor


@torch.no_grad()
def _shuffle(pair: specdec.ModelPair) -> None:
    """Mixes the rows of the draft's matrices, so that it is as slow as before and useless."""
    module = pair.drafting.module  # type: ignore[attr-defined]
    for each in module.parameters():
        if each.dim() == 2:
            each.copy_(each[torch.randperm(len(each))])
    pair.refresh()


if __name__ == "__main__":
    with ended():
        main()
