"""Measures how much context-aware trees gain over the 0-th order optimal tree of the same k.

Acceptance is learnt from texts after the first three quarters of the prompts, and stored in
`assets/stories/context.<method>.json`. Tokens per target call are measured on the last quarter of the
prompts. The optimal tree is built from the average acceptance in the texts for learning.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from research.estimates import Estimate, combined
from research.experiments.comparison import OPTIONS, SHORT, Comparison, Point, Prompt, SetUp
from specdec import ContextTree, ModelPair, optimal_topology
from specdec.context import ContextAcceptance
from specdec.learn import learn_context
from specdec.shipped import EMBEDDED
from specdec.trace import Method

METHODS: tuple[Method, ...] = ("gsd", "ersd")


def prepared(pair: ModelPair, prompts: Sequence[Prompt], options: Any) -> SetUp:
    """A set-up with the last quarter of the prompts. Its trees are built from the acceptance in the folder
    `options.acceptance`. If it is not there, it is learnt from the other prompts first."""
    held_out = max(1, len(prompts) // 4)
    trees: dict[str, Any] = {}
    for method in METHODS:
        path = options.acceptance / f"context.{method}.json"
        if not path.exists():
            learn_context(pair, prompts[:-held_out], method=method, tokens=options.learn_tokens).save(path)
        acceptance = ContextAcceptance.load(path)
        optimal = optimal_topology(acceptance.average, options.k)
        trees[f"{method} optimal"] = {"method": method, "topology": optimal}
        trees[f"{method} context"] = {"method": method, "topology": ContextTree(acceptance, options.k)}
    return SetUp(pair, prompts[-held_out:], trees, options)


def differences(point: Point, estimates: Mapping[Point, Estimate]) -> dict[str, Estimate]:
    """The relative gain of a point over the optimal tree, with an interval from the linearised quotient."""
    fixed, own = estimates[(f"{point[0].split()[0]} optimal",)], estimates[point]
    quotient = own.value / fixed.value
    linear = combined([own, fixed], [1 / fixed.value, -quotient / fixed.value])
    return {"gain": Estimate(quotient - 1, linear.influence)}


EXPERIMENT = Comparison(
    name="experiments.context",
    about="Measure the gain of context-aware trees.",
    grid={"tree": ()},
    seed=0x636F6E74,
    prepared=prepared,
    differences=differences,
    options={
        **OPTIONS,
        "--acceptance": {"type": Path, "default": EMBEDDED, "help": "folder of the learnt acceptance"},
        "--k": {"type": int, "default": 16, "help": "drafted tokens"},
        "--learn-tokens": {"type": int, "default": 30_000, "help": "from which acceptance is learnt"},
    },
    usual={"repeats": 5},
    smoke=SHORT | {"prompts": 16, "learn_tokens": 300},
)

if __name__ == "__main__":
    EXPERIMENT.main()
