"""Measures tokens per second against k for 1 to 40 texts at once: the best tree shrinks as the batch grows.

ERSD decodes on the optimal trees of k tokens, built from its own acceptance on this pair. All texts have the
same tree. k = 0 drafts nothing. `auto` divides one budget of drafted tokens among the texts. All points of a
repeat decode the same texts. When a text ends, the next one begins. Every text must equal that of plain
decoding. Seconds are processor time of one thread, including prefills; on an idle machine they equal elapsed
time. Results are medians over the repeats, with the lowest and the highest value.
"""

import gc
import time
from collections.abc import Iterator, Sequence
from functools import partial
from operator import itemgetter
from statistics import fmean
from typing import Any

import numpy as np

from research.estimates import Row, finished, grouped
from research.experiments.comparison import OPTIONS, Comparison, Prompt, SetUp
from research.experiments.settings import seed_of
from research.experiments.sweep import Sweep
from specdec import Generation, ModelPair, Topology, generate_many, measure_acceptance, optimal_topology

AT_ONCE = (1, 2, 4, 8, 16, 40)  # numbers of texts that are decoded together
KS = (0, 1, 2, 3, 4, 6, 8)
PLAIN, AUTO = "0", "auto"  # the names of the empty tree, and of the trees that `auto` chooses
TEXTS = 16  # the smallest number of texts that a point decodes in a repeat


class Serving(Comparison):
    """A comparison of the numbers of texts that are decoded at once.

    A row has the tokens and seconds of all texts of one repeat, for one number of texts at once on one tree.
    """

    def sweep_of(self, setup: SetUp) -> Sweep:
        """The sweep over all points of each repeat, in alternating order: the machine's speed drifts."""
        header, points = setup.header, self.points((*setup.trees, AUTO))
        header["settings"]["temperatures"] = setup.options.temperatures
        cells = [
            point | {"repeat": repeat}
            for repeat in range(setup.options.repeats)
            for point in (reversed(points) if repeat % 2 else points)
        ]
        return Sweep(header, lambda _rows: cells, partial(_measured, setup))

    def summarize(self, header: Row, rows: Sequence[Row]) -> Row:
        """Tokens per second of each point, also divided by those of k = 0 for the same number of texts.

        of_best: the median over repeats of the rate of `auto` divided by the rate of the best fixed k.
        """
        rows = sorted(finished(rows, "repeat"), key=itemgetter("repeat"))
        by_point, points = grouped(rows, "at_once", "tree"), []
        rates = {key: np.array([row["tokens"] / row["seconds"] for row in by_point[key]]) for key in by_point}
        for (at_once, tree), rate in rates.items():
            plain, k = rates[at_once, PLAIN], fmean(row["k"] for row in by_point[at_once, tree])
            point = {"at_once": at_once, "tree": tree, "k": round(k, 1) if tree == AUTO else int(k)}
            point |= _median_and_ends(rate) | {"gain": _median_and_ends(rate / plain)}
            if tree == AUTO:
                of_trees = [rates[other] for other in rates if other[0] == at_once and other[1] != AUTO]
                best = max(of_trees, key=lambda other: np.median(other / plain))
                point["of_best"] = _median_and_ends(rate / best)
            points.append(point)
        facts = {name: header[name] for name in ("settings", "pair", "machine")}
        return facts | {"repeats": len({row["repeat"] for row in rows}), "points": points}


def _measured(setup: SetUp, cells: Sequence[Row]) -> Iterator[Row]:
    """Decode and time the texts of each cell: a tree and a number of texts at once. AssertionError if a text
    is not that of plain decoding."""
    length = setup.options.max_new_tokens
    for (repeat,), some in grouped(cells, "repeat").items():
        decoded = partial(_decoded, setup, repeat)
        # this also runs the first forward passes of each size, which are slow, before anything is timed
        texts = decoded(length, max(AT_ONCE), method="ar")
        for cell in some:
            at_once, tree = cell["at_once"], cell["tree"]
            settings = setup.trees.get(tree, {"topology": AUTO})
            decoded(1, at_once, **settings)  # `auto` measures its costs here
            gc.collect()  # a garbage collection within the timed part would take longer than a point's texts
            start = time.process_time()
            generations = decoded(length, at_once, **settings)
            seconds = time.process_time() - start
            same = all(g.token_ids == text.token_ids for g, text in zip(generations, texts, strict=False))
            assert same, f"a text differs from plain decoding's: {at_once} at once, tree {tree}"
            drafted = fmean(len(round.nodes) for g in generations for round in g.rounds)
            k = drafted if tree == AUTO else int(tree)
            yield cell | {"k": k, "tokens": sum(len(g.token_ids) for g in generations), "seconds": seconds}


def _decoded(setup: SetUp, repeat: int, length: int, at_once: int, **settings: Any) -> list[Generation]:
    numbers, prompts, temperatures = range(max(at_once, TEXTS)), setup.prompts, setup.options.temperatures
    return generate_many(
        setup.pair,
        [prompts[(repeat * max(AT_ONCE) + number) % len(prompts)] for number in numbers],
        seeds=[seed_of(EXPERIMENT.seed, number, repeat) for number in numbers],
        at_once=at_once,
        max_new_tokens=length,
        temperature=[temperatures[number % len(temperatures)] for number in numbers],
        **settings,
    )


def _median_and_ends(values: np.ndarray) -> dict[str, float]:
    return {"value": float(np.median(values)), "low": float(values.min()), "high": float(values.max())}


def prepared(pair: ModelPair, prompts: Sequence[Prompt], options: Any) -> SetUp:
    """A set-up with the optimal tree for each k. The name of a tree is its k."""
    acceptance = measure_acceptance(pair, method="ersd")
    trees = {str(k): optimal_topology(acceptance, k) if k else Topology([]) for k in KS}
    return SetUp(pair, prompts, {k: {"topology": tree} for k, tree in trees.items()}, options)


TEMPERATURES = {"type": float, "nargs": "+", "default": [1.0], "help": "of the texts"}
EXPERIMENT = Serving(
    name="experiments.serving",
    about="Find the best tree for many texts at once.",
    grid={"at_once": AT_ONCE, "tree": ()},
    seed=0x73657276,
    prepared=prepared,
    options={**OPTIONS, "--temperatures": TEMPERATURES},
    usual={"repeats": 5, "max_new_tokens": 48},
)

if __name__ == "__main__":
    EXPERIMENT.main()
