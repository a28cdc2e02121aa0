"""What context-aware trees gain over the 0-th order optimal tree of the same k.

    python -m research.experiments.context               # the embedded pair, half an hour on a CPU
    python -m research.experiments.context --smoke       # every stage, in seconds

Acceptance is learnt from texts after the first three quarters of the prompts and written to
`assets/stories/context.<method>.json`. Tokens per target call are measured on the last quarter. The optimal
tree is grown from the average acceptance of the texts that were learnt from. Runs are appended to a
JSON-lines file: a stopped experiment goes on where it was.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from research.experiments.comparison import Comparison, Point, Prompt, Trees
from research.experiments.store import Record
from specdec.commands import columns, ended
from specdec.context import ContextAcceptance, ContextTree
from specdec.learn import learn_context
from specdec.optimal import optimal_topology
from specdec.pair import ModelPair
from specdec.shipped import EMBEDDED
from specdec.stats import Estimate
from specdec.trace import Method

METHODS: tuple[Method, ...] = ("gsd", "ersd")
OPTIMAL, CONTEXT = "optimal", "context"


class ContextGain(Comparison):
    """Compares trees. A point is a method and a kind of tree, such as "ersd context"."""

    name = "context"
    about = "Measure the gain of context-aware trees."
    fields = ("tree",)
    seed = 0x636F6E74
    repeats = 5

    def parser(self) -> argparse.ArgumentParser:
        """The options of the command."""
        parser = super().parser()
        add = parser.add_argument
        add("--acceptance", type=Path, default=EMBEDDED, help="folder of the learnt acceptance")
        add("--k", type=int, default=16, help="drafted tokens (default: %(default)s)")
        add("--learn-tokens", type=int, default=30_000, help="default: %(default)s")
        return parser

    def prepared(
        self, pair: ModelPair, prompts: Sequence[Prompt], options: argparse.Namespace
    ) -> tuple[Sequence[Prompt], Trees]:
        """The last quarter of the prompts, and trees from the acceptance learned from the others."""
        held_out = 4 if options.smoke else len(prompts) // 4
        tokens = 300 if options.smoke else options.learn_tokens
        trees: dict[str, Any] = {}
        for method in METHODS:
            path = options.acceptance / f"context.{method}.json"
            if not path.exists():
                learn_context(pair, prompts[:-held_out], method=method, tokens=tokens).save(path)
            acceptance = ContextAcceptance.load(path)
            trees[f"{method} {OPTIMAL}"] = optimal_topology(acceptance.average, options.k)
            trees[f"{method} {CONTEXT}"] = ContextTree(acceptance, options.k)
        return prompts[-held_out:], trees

    def points(self, trees: Sequence[str]) -> list[Point]:
        """All trees, each with the method that it was made for."""
        return [(tree,) for tree in trees]

    def settings(self, point: Mapping[str, Any]) -> dict[str, Any]:
        """The method of the tree."""
        return {"method": point["tree"].split()[0]}

    def differences(self, point: Point, measured: Mapping[Point, Estimate]) -> dict[str, Estimate]:
        """The relative gain over the optimal tree, with an interval from the linearised quotient."""
        before, after = measured[(f"{point[0].split()[0]} {OPTIMAL}",)], measured[point]
        quotient = after.value / before.value
        influence = {
            prompt: (after.influence[prompt] - quotient * before.influence[prompt]) / before.value
            for prompt in before.influence
        }
        return {"gain": Estimate(quotient - 1, influence)}

    def as_text(self, summary: Record) -> str:
        """One line for each tree: tokens per target call, and the gain over the optimal tree in percent."""
        rows = summary["points"]
        return columns([[r["tree"], f"{r['value']:.3f}", f"{100 * r['gain']['value']:+.1f}%"] for r in rows])


EXPERIMENT = ContextGain()

if __name__ == "__main__":
    with ended():
        EXPERIMENT.command()
