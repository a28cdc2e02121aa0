"""Experiments on one pair. All points of a grid decode the same prompts with the same seeds."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, NamedTuple

from research.estimates import Estimate, Row, finished, grouped, quotient
from research.experiments.settings import read_prompts, seed_of
from research.experiments.sweep import Experiment, Sweep
from specdec import ModelPair, load_pair, measure_acceptance, optimal_topology, stream
from specdec.decoding.batch import decode_together
from specdec.decoding.run import Run
from specdec.devices import machine
from specdec.shipped import PROMPTS, SMOLLM2, STORIES
from specdec.topology import batch, sequence

AT_ONCE = 10  # texts that are decoded together; each is the text that `generate` gives for it alone
GROWN_FROM = "gsd"  # the method from whose acceptance by index the optimal trees are built
SHORT = {"repeats": 1, "max_new_tokens": 12}
OPTIONS: Mapping[str, Row] = {
    "--pair": {"choices": [STORIES, SMOLLM2], "default": STORIES, "help": "the pair that decodes"},
    "--prompts": {"type": int, "default": 100, "help": "number of prompts"},
    "--repeats": {"type": int, "default": 2, "help": "texts of every prompt"},
    "--max-new-tokens": {"type": int, "default": 200, "help": "of one text"},
}
Prompt = str | Sequence[int]
Point = tuple[Any, ...]  # a value for each field of a grid; all runs of a point are counted together


class SetUp(NamedTuple):
    """The pair, prompts and trees of a comparison, and the parsed options of the command."""

    pair: ModelPair
    prompts: Sequence[Prompt]
    trees: Mapping[
        str, Row
    ]  # arguments of `stream` by name: `topology`, and the tree's `method` if it has one
    options: Any

    @property
    def header(self) -> Row:
        """The first line of the results file: text length, prompts and trees; the pair; and the machine."""
        trees = {name: getattr(tree["topology"], "paths", ()) for name, tree in self.trees.items()}
        return {
            "settings": {
                "max_new_tokens": self.options.max_new_tokens,
                "prompts": len(self.prompts),
                "trees": {name: [*map(list, paths)] for name, paths in trees.items()},
            },
            "pair": {"target": self.pair.target.name, "draft": self.pair.drafting.name},
            "machine": machine(self.pair.target.device),
        }


def same_trees(pair: ModelPair, prompts: Sequence[Prompt], options: Any) -> SetUp:
    """A set-up with the trees sequence(4), batch(4), and the optimal trees of 8 and 16 tokens."""
    acceptance = measure_acceptance(pair, method=GROWN_FROM)
    optimal = {f"optimal({k})": optimal_topology(acceptance, k) for k in (8, 16)}
    trees = {"sequence(4)": sequence(4), "batch(4)": batch(4)} | optimal
    return SetUp(pair, prompts, {name: {"topology": tree} for name, tree in trees.items()}, options)


@dataclass(frozen=True, kw_only=True)
class Comparison(Experiment):
    """An experiment that compares the points of a grid.

    grid: for each argument of `stream` that varies, its values; for "tree" an empty list, because its values
    are the names of the set-up's trees. seed: the seeds of all texts are derived from it. prompt: a function
    that returns the prompt of a cell, which is one text at one point. differences: a function that returns,
    by name, the differences of a point from other points.
    """

    options: Mapping[str, Row] = field(default_factory=lambda: OPTIONS)
    smoke: Mapping[str, Any] = field(default_factory=lambda: {"prompts": 2, **SHORT})
    grid: Mapping[str, Sequence[Any]]
    seed: int
    prepared: Callable[[ModelPair, Sequence[Prompt], Any], SetUp] = same_trees
    prompt: Callable[[Prompt, Row], Prompt] = lambda prompt, _cell: prompt
    differences: Callable[[Point, Mapping[Point, Estimate]], dict[str, Estimate]] = lambda _point, _all: {}
    check: Callable[[Run], None] = lambda _run: None

    def points(self, trees: Iterable[str]) -> list[Row]:
        """All points of the grid, for trees of these names."""
        values = (values or trees for values in self.grid.values())
        return [dict(zip(self.grid, point)) for point in product(*values)]

    def sweep(self, options: Any) -> Sweep:
        """The sweep of the pair, with the prompts and trees that the experiment chooses."""
        prompts = read_prompts(PROMPTS)[: options.prompts]
        return self.sweep_of(self.prepared(load_pair(options.pair), prompts, options))

    def sweep_of(self, setup: SetUp) -> Sweep:
        """The sweep that measures all points for the first `AT_ONCE` prompts, then for the next ones, and so
        on. A row has the numbers of tokens and rounds of one text."""
        numbers = range(len(setup.prompts))
        cells = [
            point | {"prompt": number, "repeat": repeat}
            for repeat in range(setup.options.repeats)
            for first in numbers[::AT_ONCE]
            for point in self.points(setup.trees)
            for number in numbers[first : first + AT_ONCE]
        ]

        def run(cell: Row) -> Run:
            return stream(
                setup.pair,
                self.prompt(setup.prompts[cell["prompt"]], cell),
                seed=seed_of(self.seed, cell["prompt"], cell["repeat"]),
                max_new_tokens=setup.options.max_new_tokens,
                detail=False,
                **setup.trees[cell["tree"]],
                **{name: cell[name] for name in self.grid if name != "tree"},
            )

        def measure(cells: Sequence[Row]) -> Iterator[Row]:
            for cell, result in decoded(setup.pair, cells, run, AT_ONCE):
                self.check(result)
                yield cell | {"tokens": len(result.generation.token_ids), "rounds": len(result.rounds)}

        return Sweep(setup.header, lambda _rows: cells, measure)

    def summarize(self, header: Row, rows: Sequence[Row]) -> Row:
        """For each point: tokens, tokens per target call with a 95% interval, and the point's differences."""
        rows = finished(rows, "prompt", "repeat")
        by_point = grouped(rows, *self.grid)
        estimates = {point: quotient(some, "tokens", "rounds") for point, some in by_point.items()}
        points = [
            dict(zip(self.grid, point))
            | {"tokens": sum(row["tokens"] for row in by_point[point])}
            | estimate.to_json()
            | {name: more.to_json() for name, more in self.differences(point, estimates).items()}
            for point, estimate in estimates.items()
        ]
        return {"settings": header["settings"], "pair": header["pair"], "runs": len(rows), "points": points}


def decoded(
    pair: ModelPair, cells: Sequence[Row], run: Callable[[Row], Run], at_once: int
) -> Iterator[tuple[Row, Run]]:
    """Decodes a run for each cell, `at_once` runs together. Yields (cell, run) each time a run has ended."""
    cell_of: dict[Run, Row] = {}

    def begin() -> Iterator[Run]:
        for cell in cells:
            cell_of[each := run(cell)] = cell
            yield each

    for each in decode_together(pair, begin(), at_once):
        yield cell_of.pop(each), each
