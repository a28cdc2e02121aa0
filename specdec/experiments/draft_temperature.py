"""ERSD with a draft that is colder or warmer than its target: another speed, the same text.

    python -m specdec.experiments.draft_temperature           # the embedded pair, half an hour on a CPU
    python -m specdec.experiments.draft_temperature --smoke   # every stage, in seconds

The target decodes at temperature 1, on the trees of `specdec.experiments.rules`. Every text is compared with
autoregressive decoding's of the same seed; one that differs ends the experiment with an error. Intervals are
95%, clustered by prompt, also of what a temperature gains over the target's own. Runs are appended to a
JSON-lines file; a killed measurement goes on where it was, and so does one with more `--repeats`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from tqdm import tqdm

from specdec.commands import ended
from specdec.decoding.batch import generate_many
from specdec.experiments.estimates import Estimate
from specdec.experiments.fixed_trees import (
    AT_ONCE,
    Experiment,
    Point,
    finished,
    groups,
    key_of,
    point_of,
    seeds,
    summary,
)
from specdec.experiments.store import Record, Store
from specdec.pair import ModelPair
from specdec.topology import Topology

TEMPERATURES = (0.25, 0.5, 0.7, 0.85, 1.0, 1.15, 1.3, 1.6, 2.0)
BESIDE = 1.0
"""The target's own, which the others are set beside."""
_FIELDS = ("tree", "draft_temperature")
_SEED = 0x74656D70


def measure(
    pair: ModelPair,
    prompts: Sequence[str | Sequence[int]],
    repeats: int,
    length: int,
    shapes: Mapping[str, Topology],
    store: Store,
) -> None:
    """Do the runs of `length` tokens that the file lacks. AssertionError where a text is not that of
    autoregressive decoding with its seed."""
    done = {key_of(run, _FIELDS) for run in store.read()[1]}
    points = [(tree, temperature) for tree in shapes for temperature in TEMPERATURES]
    for repeat, group in tqdm(groups(prompts, repeats), unit=f"{AT_ONCE} prompts", mininterval=1):
        runs = [
            dict(zip(_FIELDS, point, strict=True)) | {"prompt": number, "repeat": repeat}
            for point in points
            for number in group
        ]
        left = {point_of(run, _FIELDS) for run in runs if key_of(run, _FIELDS) not in done}
        decoded = partial(
            generate_many,
            pair,
            [prompts[number] for number in group],
            seeds=seeds(_SEED, repeat, group),
            max_new_tokens=length,
        )
        texts = [g.token_ids for g in decoded(method="ar")] if left else []
        for tree, temperature in (point for point in points if point in left):
            found = decoded(method="ersd", topology=shapes[tree], draft_temperature=temperature)
            assert [g.token_ids for g in found] == texts, f"another text: {tree}, {temperature}, {group}"
            counts = {
                n: {"tokens": len(g.token_ids), "rounds": len(g.rounds)}
                for n, g in zip(group, found, strict=True)
            }
            for run in runs:
                if point_of(run, _FIELDS) == (tree, temperature) and key_of(run, _FIELDS) not in done:
                    store.append(run | counts[run["prompt"]])


def summarize(header: Record, runs: Sequence[Record]) -> Record:
    """Tokens per target call by tree and draft temperature, and what it gains over the target's own; of an
    unfinished experiment, of those prompts that all points have done."""
    return summary(header, finished(runs, "prompt", "repeat"), _FIELDS, _gain)


def _gain(point: Point, found: Mapping[Point, Estimate]) -> dict[str, Estimate]:
    tree, _ = point
    return {"gain": found[point] - found[tree, BESIDE]}


def as_text(found: Record) -> str:
    """A line a tree: tokens per target call at each draft temperature."""
    points = {point_of(row, _FIELDS): row["value"] for row in found["points"]}
    lines = [f"{'tree':12}" + "".join(f"{temperature:>7}" for temperature in TEMPERATURES)]
    for tree in dict.fromkeys(tree for tree, _ in points):
        cells = (points[tree, temperature] for temperature in TEMPERATURES)
        lines.append(f"{tree:12}" + "".join(f"{cell:>7.3f}" for cell in cells))
    return "\n".join(lines)


EXPERIMENT = Experiment(
    "draft_temperature", "ERSD with drafts of other temperatures.", measure, summarize, as_text
)

if __name__ == "__main__":
    with ended():
        EXPERIMENT.command()
