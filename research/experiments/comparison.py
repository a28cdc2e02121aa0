"""The base of the experiments that compare points of a grid on one pair: their command and their runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from research.experiments.settings import read_prompts
from research.experiments.store import Record, Store
from specdec.commands import Parser, to_write, write_json
from specdec.context import ContextTree
from specdec.decoding.batch import generate_many
from specdec.decoding.run import measure_acceptance
from specdec.devices import machine
from specdec.loading import load_pair
from specdec.optimal import optimal_topology
from specdec.pair import ModelPair
from specdec.race import derived_seed
from specdec.shipped import PROMPTS, SMOLLM2, STORIES
from specdec.stats import Estimate, ratio
from specdec.topology import Topology, batch, sequence

AT_ONCE = 10
"""Prompts that are decoded together. The texts are those of `generate`."""
GROWN_FROM = "gsd"
"""The method whose acceptance the optimal trees are grown from."""

Prompt = str | Sequence[int]
Trees = Mapping[str, Topology | ContextTree]
Point = tuple[Any, ...]
"""Values of an experiment's fields: the runs of one point are counted together."""


class Comparison(ABC):
    """An experiment that decodes the same prompts with the same seeds at every point of a grid.

    Its command is `python -m research.experiments.NAME`. about: one sentence for `--help`.
    fields: the names of a point's values, of which one is "tree". seed: of all runs.
    repeats: how often every prompt is decoded, each time with another seed. length: the most new tokens of
    one text. own_options: names of further options, which all runs of a results file share.
    same_text: whether every text must equal that of plain decoding with its seed; AssertionError ends the
    experiment if one differs.
    """

    name: str
    about: str
    fields: tuple[str, ...]
    seed: int
    repeats = 2
    length = 200
    own_options: tuple[str, ...] = ()
    same_text = False

    @abstractmethod
    def points(self, trees: Sequence[str]) -> list[Point]:
        """All points for trees of these names."""

    @abstractmethod
    def as_text(self, summary: Record) -> str:
        """The summary as a table for a terminal."""

    def settings(self, point: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of `generate_many` at a point, without its tree."""
        return {name: value for name, value in point.items() if name != "tree"}

    def differences(
        self,
        point: Point,  # noqa: ARG002
        measured: Mapping[Point, Estimate],  # noqa: ARG002
    ) -> dict[str, Estimate]:
        """A point's comparisons with other points, by their names in the summary. By default none."""
        return {}

    def prompt(self, prompt: Prompt, point: Mapping[str, Any], repeat: int) -> Prompt:  # noqa: ARG002
        """The prompt of one repeat at a point. By default all points have the same prompts."""
        return prompt

    def trees(self, pair: ModelPair) -> dict[str, Topology]:
        """The trees by name: sequence(4), batch(4), and the optimal trees of 8 and 16 tokens."""
        acceptance = measure_acceptance(pair, method=GROWN_FROM)
        optimal = {f"optimal({k})": optimal_topology(acceptance, k) for k in (8, 16)}
        return {"sequence(4)": sequence(4), "batch(4)": batch(4)} | optimal

    def prepared(
        self, pair: ModelPair, prompts: Sequence[Prompt], options: Namespace
    ) -> tuple[Sequence[Prompt], Trees]:
        """The prompts to decode, and the trees."""
        return prompts[:2] if options.smoke else prompts, self.trees(pair)

    def command(self, arguments: Sequence[str] | None = None) -> None:
        """Measures the pair, then prints the summary and writes it."""
        options = self.parser().parse_args(arguments)
        torch.set_num_threads(1)
        if options.smoke:
            options.repeats, options.max_new_tokens = 1, 12
        pair, store = load_pair(options.pair), Store(options.results)
        prompts, trees = self.prepared(pair, read_prompts(PROMPTS), options)
        paths = {name: [list(path) for path in getattr(tree, "paths", ())] for name, tree in trees.items()}
        settings = {"max_new_tokens": options.max_new_tokens, "prompts": len(prompts), "trees": paths}
        settings |= {name: getattr(options, name) for name in self.own_options}
        names = {"target": pair.target.name, "draft": pair.drafting.name}
        header = {"settings": settings, "pair": names, "machine": machine(pair.target.device)}
        store.begin(header)
        self.measure(pair, prompts, trees, options, store)
        summary = self.summarize(header, store.read()[1])
        print(self.as_text(summary))
        if options.summary:
            write_json(options.summary, summary)

    def parser(self) -> ArgumentParser:
        """The options of the command."""
        parser = Parser(prog=f"python -m research.experiments.{self.name}", description=self.about)
        add, default = parser.add_argument, " (default: %(default)s)"
        results = Path(f"{self.name}.jsonl")
        add("--pair", choices=[STORIES, SMOLLM2], default=STORIES, help="the pair that decodes" + default)
        add("--results", type=Path, default=results, help="JSON lines, to which runs are appended" + default)
        add("--summary", type=to_write, help="the file for the summary")
        add("--repeats", type=int, default=self.repeats, help="decode every prompt so often" + default)
        add("--max-new-tokens", type=int, default=self.length, help="of one text" + default)
        add("--smoke", action="store_true", help="run every stage in seconds; the numbers mean nothing")
        return parser

    def measure(
        self, pair: ModelPair, prompts: Sequence[Prompt], trees: Trees, options: Namespace, store: Store
    ) -> None:
        """Does the runs that the results file lacks: all points of ten prompts, then of the next ten."""
        done = {self._key(run) for run in store.read()[1]}
        firsts = list(product(range(options.repeats), range(0, len(prompts), AT_ONCE)))
        for repeat, first in tqdm(firsts, unit=f"{AT_ONCE} prompts", mininterval=1):
            numbers = range(first, min(first + AT_ONCE, len(prompts)))
            common: dict[str, Any] = {"max_new_tokens": options.max_new_tokens}
            common["seeds"] = seeds(self.seed, repeat, numbers)
            plain: list[list[int]] = []
            for point in self.points(list(trees)):
                values = dict(zip(self.fields, point, strict=True))
                runs = [values | {"prompt": number, "repeat": repeat} for number in numbers]
                if all(self._key(run) in done for run in runs):
                    continue
                asked = [self.prompt(prompts[number], values, repeat) for number in numbers]
                if self.same_text and not plain:
                    plain = [g.token_ids for g in generate_many(pair, asked, method="ar", **common)]
                settings = common | self.settings(values)
                texts = generate_many(pair, asked, topology=trees[values["tree"]], **settings)
                same = not self.same_text or [g.token_ids for g in texts] == plain
                assert same, (
                    f"a text differs from plain decoding's: {values}, prompts {first} to {numbers[-1]}"
                )
                for run, g in zip(runs, texts, strict=True):
                    if self._key(run) not in done:
                        store.append(run | {"tokens": len(g.token_ids), "rounds": len(g.rounds)})

    def summarize(self, header: Record, runs: Sequence[Record]) -> Record:
        """The results as plain data, with a row for each point.

        A row has tokens, tokens per target call with a 95% interval, and its differences. An unfinished
        experiment counts only the runs that all points have done.
        """
        runs = finished(runs, "prompt", "repeat")
        by_point: dict[Point, list[Record]] = {}
        for run in runs:
            by_point.setdefault(self.point_of(run), []).append(run)
        measured = {point: tokens_per_call(some) for point, some in by_point.items()}
        rows = [
            dict(zip(self.fields, point, strict=True))
            | {"tokens": sum(run["tokens"] for run in by_point[point])}
            | estimate.to_json()
            | {name: more.to_json() for name, more in self.differences(point, measured).items()}
            for point, estimate in measured.items()
        ]
        return {"settings": header["settings"], "pair": header["pair"], "runs": len(runs), "points": rows}

    def point_of(self, run: Record) -> Point:
        """The point of a run or of a row of the summary."""
        return tuple(run[name] for name in self.fields)

    def _key(self, run: Record) -> Point:
        return *self.point_of(run), run["prompt"], run["repeat"]


def seeds(seed: int, repeat: int, prompts: range) -> list[int]:
    """One seed for each prompt, derived from `seed` and the repeat."""
    return [derived_seed(derived_seed(seed, prompt), repeat) for prompt in prompts]


def tokens_per_call(runs: Sequence[Record]) -> Estimate:
    """Tokens per target call, from runs with `prompt`, `tokens` and `rounds`. ValueError without any run."""
    parts: dict[int, tuple[float, float]] = {}
    for run in runs:
        above, below = parts.get(run["prompt"], (0, 0))
        parts[run["prompt"]] = above + run["tokens"], below + run["rounds"]
    estimate = ratio(parts)
    if estimate is None:
        raise ValueError("no runs: measure first")
    return estimate


def finished(runs: Sequence[Record], *fields: str) -> list[Record]:
    """The runs that every point has done. fields: the values that distinguish the runs of one point."""
    counts = Counter(tuple(run[name] for name in fields) for run in runs)
    most = max(counts.values(), default=0)
    return [run for run in runs if counts[tuple(run[name] for name in fields)] == most]
