"""Measures tokens per target call of all lossless rules on the same trees, prompts and seeds.

The optimal trees are built from GSD's acceptance, and all rules use them. The temperatures are 1 and 0. At
temperature 0 every seed gives the same text, so each repeat removes one more word from the prompts. Each rule
is compared with GSD run by run. Intervals are 95%, clustered by prompt. A finished experiment can be
continued with more `--repeats`.
"""

from collections.abc import Mapping

from research.estimates import Estimate, Row
from research.experiments.comparison import GROWN_FROM, Comparison, Point, Prompt
from specdec.methods import DRAFTING

TEMPERATURES = (1.0, 0.0)


def shortened(prompt: Prompt, cell: Row) -> Prompt:
    """The prompt for one repeat. At temperature 0, repeats of one prompt would be equal, so each repeat
    removes one more word or token id from the prompt's end."""
    fewer = 0 if cell["temperature"] else cell["repeat"]
    if not isinstance(prompt, str):
        return prompt[: max(1, len(prompt) - fewer)]
    words = prompt.split()
    return " ".join(words[: max(1, len(words) - fewer)]) if fewer else prompt


def differences(point: Point, estimates: Mapping[Point, Estimate]) -> dict[str, Estimate]:
    """At equal temperature and tree: the point's lead over GSD, and the best rule's lead over the point."""
    table = {other[-1]: estimate for other, estimate in estimates.items() if other[:2] == point[:2]}
    best = max(table.values(), key=lambda estimate: estimate.value)
    return {"more_than_gsd": estimates[point] - table[GROWN_FROM], "less_than_best": best - estimates[point]}


EXPERIMENT = Comparison(
    name="experiments.rules",
    about="Compare all lossless rules.",
    grid={"temperature": TEMPERATURES, "tree": (), "method": DRAFTING},
    seed=0x72756C6573,
    prompt=shortened,
    differences=differences,
)

if __name__ == "__main__":
    EXPERIMENT.main()
