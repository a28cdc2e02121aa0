"""What experiments on the same few trees share: the trees, groups of prompts, points, and their command."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from specdec.commands import Parser, to_write, write_json
from specdec.decoding.run import measure_acceptance
from specdec.devices import machine
from specdec.experiments.estimates import Estimate, tokens_per_call
from specdec.experiments.settings import read_prompts
from specdec.experiments.store import Record, Store
from specdec.loading import load_pair
from specdec.optimal import optimal_topology
from specdec.pair import ModelPair
from specdec.race import derived_seed
from specdec.shipped import PROMPTS
from specdec.topology import Topology, batch, sequence

AT_ONCE = 10
"""Prompts that are decoded together: the texts are those of `generate`, up to twice as fast."""
GROWN_FROM = "gsd"
"""The method whose acceptance the optimal trees are grown from."""

Point = tuple[Any, ...]
"""What the runs have in common that are counted together: values of the experiment's fields."""


def trees(pair: ModelPair) -> dict[str, Topology]:
    """sequence(4), batch(4) and the optimal trees of 8 and 16 tokens."""
    acceptance = measure_acceptance(pair, method=GROWN_FROM)
    optimal = {f"optimal({k})": optimal_topology(acceptance, k) for k in (8, 16)}
    return {"sequence(4)": sequence(4), "batch(4)": batch(4)} | optimal


def groups(prompts: Sequence[object], repeats: int) -> list[tuple[int, range]]:
    """(repeat, numbers of the prompts that are decoded together)."""
    firsts = range(0, len(prompts), AT_ONCE)
    return [
        (repeat, range(first, min(first + AT_ONCE, len(prompts))))
        for repeat in range(repeats)
        for first in firsts
    ]


def seeds(seed: int, repeat: int, group: range) -> list[int]:
    """A seed for each prompt of a group."""
    return [derived_seed(derived_seed(seed, prompt), repeat) for prompt in group]


def finished(runs: Sequence[Record], *fields: str) -> list[Record]:
    """The runs that all points have: of those with these fields the same, as many as anywhere."""
    counts = Counter(tuple(run[name] for name in fields) for run in runs)
    most = max(counts.values(), default=0)
    return [run for run in runs if counts[tuple(run[name] for name in fields)] == most]


def point_of(run: Record, fields: Sequence[str]) -> Point:
    """The run's values of these fields."""
    return tuple(run[name] for name in fields)


def key_of(run: Record, fields: Sequence[str]) -> Point:
    """What no other run of these fields has."""
    return point_of(run, [*fields, "prompt", "repeat"])


def summary(
    header: Record,
    runs: Sequence[Record],
    fields: Sequence[str],
    more: Callable[[Point, Mapping[Point, Estimate]], Mapping[str, Estimate]],
) -> Record:
    """A row for each point of these fields: tokens, tokens per target call, and differences.

    more: differences by name, of a point and what all points have found.
    """
    of: dict[Point, list[Record]] = {}
    for run in runs:
        of.setdefault(point_of(run, fields), []).append(run)
    found = {point: tokens_per_call(some) for point, some in of.items()}
    rows = [
        dict(zip(fields, point, strict=True))
        | {"tokens": sum(run["tokens"] for run in of[point])}
        | estimate.to_json()
        | {name: difference.to_json() for name, difference in more(point, found).items()}
        for point, estimate in found.items()
    ]
    return {"settings": header["settings"], "pair": header["pair"], "runs": len(runs), "points": rows}


@dataclass(frozen=True)
class Experiment:
    """name: of its module. measure: does the runs that a store lacks, of (pair, prompts, repeats, length,
    trees, store). summarize: of a store's header and runs. as_text: of the summary. trees: by their names.
    repeats, length: of texts, and their tokens, where nothing else is asked for."""

    name: str
    about: str
    measure: Callable[[ModelPair, Sequence[str], int, int, Mapping[str, Topology], Store], None]
    summarize: Callable[[Record, Sequence[Record]], Record]
    as_text: Callable[[Record], str]
    trees: Callable[[ModelPair], dict[str, Topology]] = trees
    repeats: int = 2
    length: int = 200

    def command(self, arguments: Sequence[str] | None = None) -> None:
        """Measure the embedded pair, and print and write the summary."""
        options = self._parser().parse_args(arguments)
        torch.set_num_threads(1)
        pair, prompts = load_pair("stories"), read_prompts(PROMPTS)
        if options.smoke:
            prompts, options.repeats, options.max_new_tokens = prompts[:2], 1, 12
        shapes, store = self.trees(pair), Store(options.results)
        settings: Record = {"max_new_tokens": options.max_new_tokens, "prompts": len(prompts)}
        settings["trees"] = {name: [list(path) for path in tree.paths] for name, tree in shapes.items()}
        header = {"settings": settings, "pair": {"target": pair.target.name, "draft": pair.drafting.name}}
        header["machine"] = machine(pair.target.device)
        store.begin(header)
        self.measure(pair, prompts, options.repeats, options.max_new_tokens, shapes, store)
        summary = self.summarize(header, store.read()[1])
        print(self.as_text(summary))
        if options.summary:
            write_json(options.summary, summary)

    def _parser(self) -> argparse.ArgumentParser:
        module = f"python -m specdec.experiments.{self.name}"
        parser = Parser(prog=module, description=self.about)
        parser.add_argument("--results", type=Path, default=Path(f"{self.name}.jsonl"))
        parser.add_argument("--summary", type=to_write, help="where to write the summary")
        repeats = f"of everything, on other seeds (default: {self.repeats})"
        parser.add_argument("--repeats", type=int, default=self.repeats, help=repeats)
        parser.add_argument("--max-new-tokens", type=int, default=self.length)
        parser.add_argument(
            "--smoke", action="store_true", help="every stage in seconds; its numbers say nothing"
        )
        return parser
