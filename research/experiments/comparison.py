"""The experiments that decode the same prompts with the same seeds at every point of a grid, on one pair."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

from research.estimates import Estimate
from research.experiments import sweep
from research.experiments.settings import read_prompts
from research.experiments.store import Record, Store
from specdec.commands import Parser
from specdec.context import ContextTree
from specdec.decoding.batch import generate_many
from specdec.decoding.run import measure_acceptance
from specdec.devices import machine
from specdec.loading import load_pair
from specdec.optimal import optimal_topology
from specdec.pair import ModelPair
from specdec.race import derived_seed
from specdec.shipped import PROMPTS, SMOLLM2, STORIES
from specdec.topology import Topology, batch, sequence
from specdec.trace import Generation

AT_ONCE = 10
"""Prompts that are decoded together. The texts are those of `generate`."""
GROWN_FROM = "gsd"
"""The method whose acceptance the optimal trees are grown from."""

Prompt = str | Sequence[int]
Point = tuple[Any, ...]
"""Values of an experiment's fields: the runs of one point are counted together."""


class SetUp(NamedTuple):
    """What an experiment decodes with. options: those of the command."""

    pair: ModelPair
    prompts: Sequence[Prompt]
    trees: Mapping[str, Topology | ContextTree]
    options: Any


def same_trees(pair: ModelPair, prompts: Sequence[Prompt], options: Any) -> SetUp:
    """All prompts on sequence(4), batch(4), and the optimal trees of 8 and 16 tokens."""
    acceptance = measure_acceptance(pair, method=GROWN_FROM)
    optimal = {f"optimal({k})": optimal_topology(acceptance, k) for k in (8, 16)}
    trees = {"sequence(4)": sequence(4), "batch(4)": batch(4)} | optimal
    return SetUp(pair, prompts[:2] if options.smoke else prompts, trees, options)


def without_tree(point: Record) -> Record:
    """The values of a point that are arguments of `generate_many`."""
    return {name: value for name, value in point.items() if name != "tree"}


@dataclass(frozen=True, kw_only=True)
class Comparison(sweep.Experiment):
    """An experiment that compares points: values of `fields`, of which one is "tree".

    points: all points for trees of these names. prepared: chooses prompts and trees. settings: the arguments
    of `generate_many` at a point. prompt: the prompt of one repeat at a point. differences: a point's
    comparisons with other points, by their names in the summary. repeats: how often every prompt is decoded,
    each time with another seed. length: the most new tokens of one text. own_options: further options;
    in_header: those that all runs of a results file share. same_text: every text must equal that of plain
    decoding with its seed; AssertionError ends the experiment if one differs.
    """

    fields: tuple[str, ...]
    points: Callable[[Sequence[str]], list[Point]]
    seed: int
    prepared: Callable[[ModelPair, Sequence[Prompt], Any], SetUp] = same_trees
    settings: Callable[[Record], Record] = without_tree
    prompt: Callable[[Prompt, Record, int], Prompt] = lambda prompt, _point, _repeat: prompt
    differences: Callable[[Point, Mapping[Point, Estimate]], dict[str, Estimate]] = lambda _point, _all: {}
    repeats: int = 2
    length: int = 200
    own_options: Mapping[str, Record] | None = None
    in_header: tuple[str, ...] = ()
    same_text: bool = False

    def parser(self) -> Parser:
        """The options of the command."""
        parser, default = super().parser(), " (default: %(default)s)"
        add = parser.add_argument
        add("--pair", choices=[STORIES, SMOLLM2], default=STORIES, help="the pair that decodes" + default)
        add("--repeats", type=int, default=self.repeats, help="decode every prompt so often" + default)
        add("--max-new-tokens", type=int, default=self.length, help="of one text" + default)
        for name, entries in (self.own_options or {}).items():
            add(name, **entries)
        return parser

    def run(self, options: Any, store: Store) -> None:
        """Does the runs that the results file lacks: all points of ten prompts, then of the next ten."""
        if options.smoke:
            options.repeats, options.max_new_tokens = 1, 12
        setup = self.prepared(load_pair(options.pair), read_prompts(PROMPTS), options)
        pair = setup.pair
        paths = {name: [*map(list, getattr(tree, "paths", ()))] for name, tree in setup.trees.items()}
        settings = {"max_new_tokens": options.max_new_tokens, "prompts": len(setup.prompts), "trees": paths}
        settings |= {name: getattr(options, name) for name in self.in_header}
        names = {"target": pair.target.name, "draft": pair.drafting.name}
        header = {"settings": settings, "pair": names, "machine": machine(pair.target.device)}
        self.complete(setup, header, store)

    def complete(self, setup: SetUp, header: Record, store: Store) -> None:
        """`run` with these models, prompts and trees."""
        missing = sweep.lacking(self.cells(setup))
        sweep.complete(store, header, missing, partial(self.measured, setup))

    def cells(self, setup: SetUp) -> list[Record]:
        """All runs, in their order."""
        return [
            dict(zip(self.fields, point, strict=True)) | {"prompt": number, "repeat": repeat}
            for repeat in range(setup.options.repeats)
            for first in range(0, len(setup.prompts), AT_ONCE)
            for point in self.points(list(setup.trees))
            for number in range(first, min(first + AT_ONCE, len(setup.prompts)))
        ]

    def measured(self, setup: SetUp, cells: Sequence[Record]) -> Iterator[Record]:
        """Decodes each point's prompts of one ten together."""
        for (repeat, _), block in groupby(cells, lambda run: (run["repeat"], run["prompt"] // AT_ONCE)):
            group = list(block)
            plain: dict[int, list[int]] = {}
            if self.same_text:
                numbers = sorted({cell["prompt"] for cell in group})
                texts = self._decoded(setup, numbers, repeat, group[0], method="ar")
                plain = {number: g.token_ids for number, g in zip(numbers, texts, strict=True)}
            for some in sweep.grouped(group, *self.fields).values():
                numbers, tree = [cell["prompt"] for cell in some], setup.trees[some[0]["tree"]]
                settings = self.settings({name: some[0][name] for name in self.fields})
                texts = self._decoded(setup, numbers, repeat, some[0], topology=tree, **settings)
                for cell, g in zip(some, texts, strict=True):
                    same = not plain or g.token_ids == plain[cell["prompt"]]
                    assert same, f"a text differs from plain decoding's: {cell}"
                    yield cell | {"tokens": len(g.token_ids), "rounds": len(g.rounds)}

    def _decoded(
        self, setup: SetUp, numbers: Sequence[int], repeat: int, point: Record, **settings: Any
    ) -> list[Generation]:
        return generate_many(
            setup.pair,
            [self.prompt(setup.prompts[number], point, repeat) for number in numbers],
            seeds=seeds(self.seed, repeat, numbers),
            max_new_tokens=setup.options.max_new_tokens,
            **settings,
        )

    def summarize(self, header: Record, runs: Sequence[Record]) -> Record:
        """A row for each point: tokens, tokens per target call with a 95% interval, and its differences."""
        runs = sweep.finished(runs, "prompt", "repeat")
        by_point = sweep.grouped(runs, *self.fields)
        measured = {point: sweep.quotient(some, "tokens", "rounds") for point, some in by_point.items()}
        rows = [
            dict(zip(self.fields, point, strict=True))
            | {"tokens": sum(run["tokens"] for run in by_point[point])}
            | estimate.to_json()
            | {name: more.to_json() for name, more in self.differences(point, measured).items()}
            for point, estimate in measured.items()
        ]
        return {"settings": header["settings"], "pair": header["pair"], "runs": len(runs), "points": rows}


def seeds(seed: int, repeat: int, prompts: Sequence[int]) -> list[int]:
    """One seed for each prompt, derived from `seed` and the repeat."""
    return [derived_seed(derived_seed(seed, prompt), repeat) for prompt in prompts]
