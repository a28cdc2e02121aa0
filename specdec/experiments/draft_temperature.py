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
from typing import Any

from tqdm import tqdm

from specdec.decoding.batch import generate_many
from specdec.experiments.estimates import tokens_per_call
from specdec.experiments.fixed_trees import AT_ONCE, Experiment, finished, groups, seeds
from specdec.experiments.store import Record, Store
from specdec.pair import ModelPair
from specdec.topology import Topology

TEMPERATURES = (0.25, 0.5, 0.7, 0.85, 1.0, 1.15, 1.3, 1.6, 2.0)
BESIDE = 1.0
"""The target's own, which the others are set beside."""
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
    done = {_key(run) for run in store.read()[1]}
    points = [
        {"tree": tree, "draft_temperature": temperature} for tree in shapes for temperature in TEMPERATURES
    ]
    for repeat, group in tqdm(groups(prompts, repeats), unit=f"{AT_ONCE} prompts", mininterval=1):
        runs = [point | {"prompt": number, "repeat": repeat} for point in points for number in group]
        left = {_point(run) for run in runs if _key(run) not in done}
        decoded = partial(
            generate_many,
            pair,
            [prompts[number] for number in group],
            seeds=seeds(_SEED, repeat, group),
            max_new_tokens=length,
        )
        texts = [g.token_ids for g in decoded(method="ar")] if left else []
        for tree, temperature in (point for point in map(_point, points) if point in left):
            found = decoded(method="ersd", topology=shapes[tree], draft_temperature=temperature)
            assert [g.token_ids for g in found] == texts, f"another text: {tree}, {temperature}, {group}"
            counts = {
                n: {"tokens": len(g.token_ids), "rounds": len(g.rounds)}
                for n, g in zip(group, found, strict=True)
            }
            for run in runs:
                if _point(run) == (tree, temperature) and _key(run) not in done:
                    store.append(run | counts[run["prompt"]])


def summarize(header: Record, runs: Sequence[Record]) -> Record:
    """Tokens per target call by tree and draft temperature, and what it gains over the target's own; of an
    unfinished experiment, of those prompts that all points have done."""
    runs = finished(runs, "prompt", "repeat")
    points = dict.fromkeys(map(_point, runs))
    found = {point: tokens_per_call(run for run in runs if _point(run) == point) for point in points}
    rows = [
        {"tree": tree, "draft_temperature": temperature}
        | {"tokens": sum(run["tokens"] for run in runs if _point(run) == (tree, temperature))}
        | estimate.to_json()
        | {"gain": (estimate - found[tree, BESIDE]).to_json()}
        for (tree, temperature), estimate in found.items()
    ]
    return {"settings": header["settings"], "pair": header["pair"], "runs": len(runs), "points": rows}


def _point(run: Mapping[str, Any]) -> tuple[Any, ...]:
    return run["tree"], run["draft_temperature"]


def _key(run: Mapping[str, Any]) -> tuple[Any, ...]:
    return *_point(run), run["prompt"], run["repeat"]


def as_text(summary: Record) -> str:
    """A line a tree: tokens per target call at each draft temperature."""
    points = {_point(row): row["value"] for row in summary["points"]}
    lines = [f"{'tree':12}" + "".join(f"{temperature:>7}" for temperature in TEMPERATURES)]
    for tree in dict.fromkeys(tree for tree, _ in points):
        cells = (points[tree, temperature] for temperature in TEMPERATURES)
        lines.append(f"{tree:12}" + "".join(f"{cell:>7.3f}" for cell in cells))
    return "\n".join(lines)


EXPERIMENT = Experiment(
    "draft_temperature", "ERSD with drafts of other temperatures.", measure, summarize, as_text
)

if __name__ == "__main__":
    EXPERIMENT.command()
