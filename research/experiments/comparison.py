"""The experiments that decode the same prompts with the same seeds at every point of a grid, on one pair."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, NamedTuple

from research.estimates import Estimate
from research.experiments.settings import read_prompts, seed_of
from research.experiments.store import Record
from research.experiments.sweep import Experiment, Sweep, finished, grouped, quotient
from specdec.commands import Parser
from specdec.context import ContextTree
from specdec.decoding.batch import decode_together
from specdec.decoding.run import Run, measure_acceptance, stream
from specdec.devices import machine
from specdec.loading import load_pair
from specdec.optimal import optimal_topology
from specdec.pair import ModelPair
from specdec.shipped import PROMPTS, SMOLLM2, STORIES
from specdec.topology import Topology, batch, sequence

AT_ONCE = 10
"""Number of texts that are decoded together. Each equals the text of `generate`."""
GROWN_FROM = "gsd"
"""The method whose acceptance gives the optimal trees."""

Prompt = str | Sequence[int]
Point = tuple[Any, ...]
"""Values of an experiment's fields: the runs of one point are counted together."""


class SetUp(NamedTuple):
    """The pair, prompts and trees of a comparison. options: those of the command."""

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
    """The values of a point that are arguments of `stream`."""
    return {name: value for name, value in point.items() if name != "tree"}


@dataclass(frozen=True, kw_only=True)
class Comparison(Experiment):
    """An experiment that compares the points of a grid.

    grid: the values of each field, empty for "tree", whose values are the names of the trees. seed: the seeds
    of all texts follow from it. prepared: chooses prompts and trees. settings: the arguments of `stream` at a
    point. prompt: the prompt of a cell. differences: comparisons of a point with others, by their names in
    the summary. repeats: how often every prompt is decoded, each time with another seed. length: the most new
    tokens of one text. check: called with each decoded text. own_options: further options of the command.
    """

    grid: Mapping[str, Sequence[Any]]
    seed: int
    prepared: Callable[[ModelPair, Sequence[Prompt], Any], SetUp] = same_trees
    settings: Callable[[Record], Record] = without_tree
    prompt: Callable[[Prompt, Record], Prompt] = lambda prompt, _cell: prompt
    differences: Callable[[Point, Mapping[Point, Estimate]], dict[str, Estimate]] = lambda _point, _all: {}
    repeats: int = 2
    length: int = 200
    check: Callable[[Run], None] = lambda _run: None
    own_options: Mapping[str, Record] = field(default_factory=dict)

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of a point."""
        return tuple(self.grid)

    def points(self, trees: Iterable[str]) -> list[Point]:
        """All points for trees of these names."""
        return [*product(*(values or trees for values in self.grid.values()))]

    def parser(self) -> Parser:
        """The options of the command."""
        parser, default = super().parser(), " (default: %(default)s)"
        add = parser.add_argument
        add("--pair", choices=[STORIES, SMOLLM2], default=STORIES, help="the pair that decodes" + default)
        add("--repeats", type=int, default=self.repeats, help="texts of every prompt" + default)
        add("--max-new-tokens", type=int, default=self.length, help="of one text" + default)
        for name, entries in self.own_options.items():
            add(name, **entries)
        return parser

    def sweep(self, options: Any) -> Sweep:
        """The sweep of the pair, with the prompts and trees that the experiment chooses."""
        if options.smoke:
            options.repeats, options.max_new_tokens = 1, 12
        return self.sweep_of(self.prepared(load_pair(options.pair), read_prompts(PROMPTS), options))

    def sweep_of(self, setup: SetUp) -> Sweep:
        """Measures all points for ten prompts, then for the next ten. A row counts the tokens and rounds of a
        text."""
        cells = [
            dict(zip(self.fields, point, strict=True)) | {"prompt": number, "repeat": repeat}
            for repeat in range(setup.options.repeats)
            for first in range(0, len(setup.prompts), AT_ONCE)
            for point in self.points(setup.trees)
            for number in range(first, min(first + AT_ONCE, len(setup.prompts)))
        ]

        def run(cell: Record) -> Run:
            return stream(
                setup.pair,
                self.prompt(setup.prompts[cell["prompt"]], cell),
                topology=setup.trees[cell["tree"]],
                seed=seed_of(self.seed, cell["prompt"], cell["repeat"]),
                max_new_tokens=setup.options.max_new_tokens,
                detail=False,
                **self.settings({name: cell[name] for name in self.fields}),
            )

        def measure(cells: Sequence[Record]) -> Iterator[Record]:
            for cell, ended in decoded(setup.pair, cells, run, AT_ONCE):
                self.check(ended)
                yield cell | {"tokens": len(ended.generation.token_ids), "rounds": len(ended.rounds)}

        return Sweep(header_of(setup), (*self.fields, "prompt", "repeat"), lambda _rows: cells, measure)

    def summarize(self, header: Record, rows: Sequence[Record]) -> Record:
        """A row for each point: tokens, tokens per target call with a 95% interval, and its differences."""
        rows = finished(rows, "prompt", "repeat")
        by_point = grouped(rows, *self.fields)
        measured = {point: quotient(some, "tokens", "rounds") for point, some in by_point.items()}
        points = [
            dict(zip(self.fields, point, strict=True))
            | {"tokens": sum(row["tokens"] for row in by_point[point])}
            | estimate.to_json()
            | {name: more.to_json() for name, more in self.differences(point, measured).items()}
            for point, estimate in measured.items()
        ]
        return {"settings": header["settings"], "pair": header["pair"], "runs": len(rows), "points": points}


def header_of(setup: SetUp) -> Record:
    """Length, prompts and trees, the pair, and the machine."""
    paths = {name: [*map(list, getattr(tree, "paths", ()))] for name, tree in setup.trees.items()}
    length = setup.options.max_new_tokens
    return {
        "settings": {"max_new_tokens": length, "prompts": len(setup.prompts), "trees": paths},
        "pair": {"target": setup.pair.target.name, "draft": setup.pair.drafting.name},
        "machine": machine(setup.pair.target.device),
    }


def decoded(
    pair: ModelPair, cells: Sequence[Record], run: Callable[[Record], Run], at_once: int
) -> Iterator[tuple[Record, Run]]:
    """Decodes the runs of the cells, `at_once` together. Yields each cell with its run when it has ended."""
    cell_of: dict[Run, Record] = {}

    def begin() -> Iterator[Run]:
        for cell in cells:
            cell_of[each := run(cell)] = cell
            yield each

    for each in decode_together(pair, begin(), at_once):
        yield cell_of.pop(each), each
