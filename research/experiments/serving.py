"""The best tree shrinks as the batch grows: tokens per second against k, of 1 to 40 texts at once.

    python -m research.experiments.serving           # the embedded pair, five minutes on a quiet CPU
    python -m research.experiments.serving --pair smollm2 --results serving-smollm2.jsonl    # the chat pair
    python -m research.experiments.serving --temperatures 0.3 1.5    # texts that differ in acceptance
    python -m research.experiments.serving --smoke   # every stage, in seconds

ERSD decodes on the optimal trees of k tokens, grown from its own acceptance on this pair; all texts have the
same tree. k = 0 drafts nothing. `auto` divides one budget of rows among the texts. All points of a repeat
write the same texts, prefills included; a text that ends makes room for the next. Every text must equal that
of plain decoding. Seconds are processor time of one thread, which equals the clock's time on an idle machine.
Medians of the repeats stand with the lowest and the highest. Runs are appended to a JSON-lines file: a
stopped experiment goes on where it was.
"""

from __future__ import annotations

import gc
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Sequence
from functools import partial
from statistics import fmean, median
from typing import Any

from tqdm import tqdm

from research.experiments.comparison import Comparison, Point, Prompt, Trees, finished, seeds
from research.experiments.store import Record, Store
from specdec.commands import columns, ended
from specdec.decoding.batch import generate_many
from specdec.decoding.run import measure_acceptance
from specdec.optimal import optimal_topology
from specdec.pair import ModelPair
from specdec.topology import Topology
from specdec.trace import Generation

AT_ONCE = (1, 2, 4, 8, 16, 40)
"""Numbers of texts that are decoded together."""
KS = (0, 1, 2, 3, 4, 6, 8)
PLAIN, AUTO = "0", "auto"
"""Names of the empty tree and of the trees that `auto` chooses."""
TEXTS = 16
"""The least number of texts of a point in a repeat."""


class Serving(Comparison):
    """Compares numbers of texts decoded at once. A point is such a number and a tree."""

    name = "serving"
    about = "Find the best tree for many texts at once."
    fields = ("at_once", "tree")
    seed = 0x73657276
    repeats = 5
    length = 48
    own_options = ("temperatures",)

    def parser(self) -> ArgumentParser:
        """The options of the command."""
        parser = super().parser()
        parser.add_argument(
            "--temperatures", type=float, nargs="+", default=[1.0], help="of the texts, in turn"
        )
        return parser

    def trees(self, pair: ModelPair) -> dict[str, Topology]:
        """The optimal tree of each k, named by its k."""
        acceptance = measure_acceptance(pair, method="ersd")
        return {str(k): optimal_topology(acceptance, k) if k else Topology([]) for k in KS}

    def points(self, trees: Sequence[str]) -> list[Point]:
        """All trees and the one of `auto`, with all numbers of texts."""
        return [(at_once, tree) for at_once in AT_ONCE for tree in (*trees, AUTO)]

    def measure(
        self, pair: ModelPair, prompts: Sequence[Prompt], trees: Trees, options: Namespace, store: Store
    ) -> None:
        """Measures the points that the results file lacks.

        AssertionError if a text differs from plain decoding.
        """
        done = {_key(run) for run in store.read()[1]}
        length, temperatures = options.max_new_tokens, options.temperatures
        for repeat in tqdm(range(options.repeats), unit="repeat"):
            missing = [point for point in self.points(list(trees)) if (*point, repeat) not in done]
            decoded = partial(_decoded, pair, prompts, repeat, temperatures)
            # this also runs the first, slow forwards of each size before anything is timed
            texts = decoded(length, max(AT_ONCE), method="ar") if missing else []
            # in both directions: the machine's speed drifts
            for at_once, tree in reversed(missing) if repeat % 2 else missing:
                settings = {"method": "ersd", "topology": trees.get(tree, AUTO)}
                decoded(1, at_once, **settings)  # `auto` measures here
                gc.collect()  # a collection of everything takes longer than the texts of a point
                start = time.process_time()
                generations = decoded(length, at_once, **settings)
                seconds = time.process_time() - start
                same = all(g.token_ids == text.token_ids for g, text in zip(generations, texts, strict=False))
                assert same, f"a text differs from plain decoding's: {at_once} at once, tree {tree}"
                rounds = [round for g in generations for round in g.rounds]
                k = fmean(len(round.nodes) for round in rounds) if tree == AUTO else int(tree)
                run = {"at_once": at_once, "tree": tree, "repeat": repeat, "k": k}
                tokens = sum(len(g.token_ids) for g in generations)
                store.append(run | {"tokens": tokens, "seconds": seconds})

    def summarize(self, header: Record, runs: Sequence[Record]) -> Record:
        """Tokens per second of each point, also as a multiple of k = 0 with the same number of texts.

        of_best: those of `auto` as a multiple of the best equal trees, the median over repeats.
        """
        runs = finished(runs, "repeat")
        rates = {_key(run): run["tokens"] / run["seconds"] for run in runs}
        rows: list[Record] = []
        for at_once, tree in dict.fromkeys(key[:2] for key in rates):
            own = {key[2]: rate for key, rate in rates.items() if key[:2] == (at_once, tree)}
            drafted = [run["k"] for run in runs if _key(run)[:2] == (at_once, tree)]
            k = round(fmean(drafted), 1) if tree == AUTO else drafted[0]
            gain = _median_and_ends(rate / rates[at_once, PLAIN, repeat] for repeat, rate in own.items())
            row = {"at_once": at_once, "tree": tree, "k": k}
            rows.append(row | _median_and_ends(own.values()) | {"gain": gain})
        for row in (row for row in rows if row["tree"] == AUTO):
            at_once = row["at_once"]
            fixed = [other for other in rows if other["at_once"] == at_once and other["tree"] != AUTO]
            best = max(fixed, key=lambda other: other["gain"]["value"])["tree"]
            repeats = [key[2] for key in rates if key[:2] == (at_once, AUTO)]
            row["of_best"] = _median_and_ends(
                rates[at_once, AUTO, repeat] / rates[at_once, best, repeat] for repeat in repeats
            )
        about = {name: header[name] for name in ("settings", "pair", "machine")}
        return about | {"repeats": len({run["repeat"] for run in runs}), "points": rows}

    def as_text(self, summary: Record) -> str:
        """One line for each number of texts: tokens per second by k, and with the tree of `auto`."""
        points = {(row["at_once"], row["tree"]): row for row in summary["points"]}
        names = list(dict.fromkeys(tree for _, tree in points))
        rows = [["at once", *names, f"mean k of {AUTO}", f"{AUTO} / best k"]]
        for at_once in dict.fromkeys(at_once for at_once, _ in points):
            chosen = f"{points[at_once, AUTO]['k']:.1f}"
            values = [f"{points[at_once, name]['value']:.0f}" for name in names]
            of_best = points[at_once, AUTO]["of_best"]["value"]
            rows.append([f"{at_once}", *values, chosen, f"{of_best:.2f}"])
        return columns(rows)


def _decoded(
    pair: ModelPair,
    prompts: Sequence[Prompt],
    repeat: int,
    temperatures: Sequence[float],
    length: int,
    at_once: int,
    **settings: Any,
) -> list[Generation]:
    numbers = range(max(at_once, TEXTS))
    return generate_many(
        pair,
        [prompts[(repeat * max(AT_ONCE) + number) % len(prompts)] for number in numbers],
        seeds=seeds(Serving.seed, repeat, numbers),
        at_once=at_once,
        max_new_tokens=length,
        temperature=[temperatures[number % len(temperatures)] for number in numbers],
        **settings,
    )


def _median_and_ends(values: Iterable[float]) -> dict[str, float]:
    """The median, the lowest and the highest value."""
    numbers = list(values)
    return {"value": median(numbers), "low": min(numbers), "high": max(numbers)}


def _key(run: Record) -> tuple[int, str, int]:
    return run["at_once"], run["tree"], run["repeat"]


EXPERIMENT = Serving()

if __name__ == "__main__":
    with ended():
        EXPERIMENT.command()
