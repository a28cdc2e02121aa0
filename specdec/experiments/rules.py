"""All lossless rules on the same trees, prompts and seeds: tokens per target call.

    python -m specdec.experiments.rules                 # the embedded pair, an hour on a CPU
    python -m specdec.experiments.rules --smoke         # every stage, in seconds

Trees: sequence(4), batch(4) and the optimal trees of 8 and 16 tokens, grown from GSD's acceptance on this
pair, the same for all. Temperatures: 1, and 0, where rules that decide on several positions gain nothing;
there a text is the same again, so each repeat has a prompt with one word less.
Each rule is set beside GSD, run by run: intervals are 95%, clustered by prompt. Runs are appended to a
JSON-lines file; a killed measurement goes on where it was, and so does one with more `--repeats`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tqdm import tqdm

from specdec.commands import ended
from specdec.decoding.batch import generate_many
from specdec.experiments.estimates import Estimate
from specdec.experiments.fixed_trees import (
    AT_ONCE,
    GROWN_FROM,
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
from specdec.methods import DRAFTING, METHODS
from specdec.pair import ModelPair
from specdec.topology import Topology
from specdec.trace import Generation

TEMPERATURES = (1.0, 0.0)
BESIDE = GROWN_FROM
"""The method that the others are set beside."""
_FIELDS = ("temperature", "tree", "method")
_SEED = 0x72756C6573


def measure(
    pair: ModelPair,
    prompts: Sequence[str | Sequence[int]],
    repeats: int,
    length: int,
    shapes: Mapping[str, Topology],
    store: Store,
) -> None:
    """Do the runs of `length` tokens that the file lacks, all rules and trees of some prompts in turn."""
    done = {key_of(run, _FIELDS) for run in store.read()[1]}
    jobs = [
        [
            {"method": method, "tree": tree, "temperature": temperature, "prompt": prompt, "repeat": repeat}
            for prompt in group
        ]
        for repeat, group in groups(prompts, repeats)
        for temperature in TEMPERATURES
        for tree in shapes
        for method in DRAFTING
    ]
    left = [job for job in jobs if any(key_of(run, _FIELDS) not in done for run in job)]
    for job in tqdm(left, unit=f"{AT_ONCE} runs", mininterval=1):
        for run, g in zip(job, _decoded(pair, prompts, length, shapes, job), strict=True):
            if key_of(run, _FIELDS) not in done:
                store.append(run | {"tokens": len(g.token_ids), "rounds": len(g.rounds)})


def _decoded(
    pair: ModelPair,
    prompts: Sequence[str | Sequence[int]],
    length: int,
    shapes: Mapping[str, Topology],
    runs: Sequence[Record],
) -> list[Generation]:
    """The texts of one method on one tree, after the prompts of a group."""
    numbers = range(runs[0]["prompt"], runs[-1]["prompt"] + 1)
    fewer = 0 if runs[0]["temperature"] else runs[0]["repeat"]
    return generate_many(
        pair,
        [_shortened(prompts[number], fewer) for number in numbers],
        seeds=seeds(_SEED, runs[0]["repeat"], numbers),
        method=runs[0]["method"],
        topology=shapes[runs[0]["tree"]],
        temperature=runs[0]["temperature"],
        max_new_tokens=length,
    )


def _shortened(prompt: str | Sequence[int], fewer: int) -> str | Sequence[int]:
    """The prompt without its last words, or token ids; at least one is left."""
    if isinstance(prompt, str):
        words = prompt.split()
        return " ".join(words[: max(1, len(words) - fewer)]) if fewer else prompt
    return prompt[: max(1, len(prompt) - fewer)]


def summarize(header: Record, runs: Sequence[Record]) -> Record:
    """Tokens per target call of each rule on each tree, what it has more than GSD and less than the best
    there, with intervals; of an unfinished experiment, of the prompts that all rules and trees have done."""
    return summary(header, finished(runs, "temperature", "prompt", "repeat"), _FIELDS, _differences)


def _differences(point: Point, found: Mapping[Point, Estimate]) -> dict[str, Estimate]:
    there = {other[-1]: estimate for other, estimate in found.items() if other[:2] == point[:2]}
    best = max(there.values(), key=lambda estimate: estimate.value)
    return {"more_than_gsd": found[point] - there[BESIDE], "less_than_best": best - found[point]}


def as_text(found: Record) -> str:
    """A line a tree and temperature: each rule's tokens per target call, and an asterisk where they are apart
    from GSD's, the 95% interval of their difference leaving out 0."""
    lines = [f"{'T':>3} {'tree':12}" + "".join(f"{METHODS[method].name:>12}" for method in DRAFTING)]
    points = {point_of(row, _FIELDS): row for row in found["points"]}
    for temperature, tree in dict.fromkeys(point[:2] for point in points):
        cells = (_cell(points.get((temperature, tree, method))) for method in DRAFTING)
        lines.append(f"{temperature:>3} {tree:12}" + "".join(f"{cell:>12}" for cell in cells))
    return "\n".join(lines)


def _cell(row: Record | None) -> str:
    if row is None:
        return "-"
    low, high = (row.get("more_than_gsd", {}).get(end) for end in ("low", "high"))
    apart = low is not None and (low > 0 or high < 0)
    return f"{row['value']:.3f}{'*' if apart else ' '}"


EXPERIMENT = Experiment("rules", "All lossless rules.", measure, summarize, as_text)

if __name__ == "__main__":
    with ended():
        EXPERIMENT.command()
