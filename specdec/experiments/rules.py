"""All lossless rules on the same trees, prompts and seeds: tokens per target call.

    python -m specdec.experiments.rules                 # the embedded pair, an hour on a CPU
    python -m specdec.experiments.rules --smoke         # every stage, in seconds

Trees: sequence(4), batch(4) and the optimal trees of 8 and 16 tokens, grown from GSD's acceptance on this
pair, the same for all. Temperatures: 1, and 0, where rules that decide on several positions gain nothing.
Each rule is set beside GSD, run by run: intervals are 95%, clustered by prompt. Runs are appended to a
JSON-lines file; a killed measurement goes on where it was, and so does one with more `--repeats`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from specdec.decoding.batch import generate_many
from specdec.decoding.run import measure_acceptance
from specdec.experiments.estimates import Estimate, ratio
from specdec.experiments.settings import read_prompts
from specdec.experiments.store import Record, Store
from specdec.loading import load_pair
from specdec.methods import DRAFTING, METHODS
from specdec.optimal import optimal_topology
from specdec.pair import ModelPair
from specdec.race import derived_seed
from specdec.shipped import PROMPTS
from specdec.topology import Topology, batch, sequence
from specdec.trace import Generation

TEMPERATURES = (1.0, 0.0)
BESIDE = "gsd"
"""The method that the others are set beside."""
AT_ONCE = 10
"""Prompts that are decoded together: the texts are those of `generate`, twice as fast."""
_SEED = 0x72756C6573


def trees(pair: ModelPair) -> dict[str, Topology]:
    """The trees that all rules decode on."""
    acceptance = measure_acceptance(pair, method=BESIDE)
    optimal = {f"optimal({k})": optimal_topology(acceptance, k) for k in (8, 16)}
    return {"sequence(4)": sequence(4), "batch(4)": batch(4)} | optimal


def measure(
    pair: ModelPair,
    prompts: Sequence[str | Sequence[int]],
    repeats: int,
    length: int,
    shapes: Mapping[str, Topology],
    store: Store,
) -> None:
    """Do the runs of `length` tokens that the file lacks, all rules and trees of some prompts in turn."""
    done = {_key(run) for run in store.read()[1]}
    jobs = [
        [
            {"method": method, "tree": tree, "temperature": temperature, "prompt": prompt, "repeat": repeat}
            for prompt in range(first, min(first + AT_ONCE, len(prompts)))
        ]
        for repeat in range(repeats)
        for first in range(0, len(prompts), AT_ONCE)
        for temperature in TEMPERATURES
        if temperature or not repeat  # a greedy text is the same again
        for tree in shapes
        for method in DRAFTING
    ]
    left = [runs for group in jobs if (runs := [run for run in group if _key(run) not in done])]
    for runs in tqdm(left, unit=f"{AT_ONCE} runs", mininterval=1):
        for run, g in zip(runs, _decoded(pair, prompts, length, shapes, runs), strict=True):
            store.append(run | {"tokens": len(g.token_ids), "rounds": len(g.rounds)})


def _decoded(
    pair: ModelPair,
    prompts: Sequence[str | Sequence[int]],
    length: int,
    shapes: Mapping[str, Topology],
    runs: Sequence[Record],
) -> list[Generation]:
    """The texts of runs that differ in prompt and repeat only."""
    return generate_many(
        pair,
        [prompts[run["prompt"]] for run in runs],
        seeds=[derived_seed(derived_seed(_SEED, run["prompt"]), run["repeat"]) for run in runs],
        method=runs[0]["method"],
        topology=shapes[runs[0]["tree"]],
        temperature=runs[0]["temperature"],
        max_new_tokens=length,
    )


def summarize(header: Record, runs: Sequence[Record]) -> Record:
    """Tokens per target call of each rule on each tree, and what it has more than GSD, with intervals."""
    points = sorted({(run["temperature"], run["tree"], run["method"]) for run in runs}, reverse=True)
    found = {point: _estimate(runs, point) for point in points}
    rows = [_row(point, found, runs) for point in points]
    return {"settings": header["settings"], "pair": header["pair"], "runs": len(runs), "points": rows}


def _row(point: tuple[Any, ...], found: Mapping[Any, Estimate], runs: Sequence[Record]) -> Record:
    temperature, tree, method = point
    row = {"temperature": temperature, "tree": tree, "method": method}
    row |= {"tokens": sum(run["tokens"] for run in runs if _point(run) == point)} | _told(found[point])
    beside = found.get((temperature, tree, BESIDE))
    return row | ({} if beside is None else {"more_than_gsd": _told(found[point] - beside)})


def _estimate(runs: Sequence[Record], point: tuple[Any, ...]) -> Estimate:
    parts: dict[int, tuple[float, float]] = {}
    for run in runs:
        if _point(run) == point:
            above, below = parts.get(run["prompt"], (0, 0))
            parts[run["prompt"]] = above + run["tokens"], below + run["rounds"]
    estimate = ratio(parts)
    assert estimate is not None, f"no runs of {point}"
    return estimate


def _told(estimate: Estimate) -> dict[str, float | None]:
    low, high = estimate.interval
    known = low == low  # not NaN, as with one prompt
    return {"value": estimate.value, "low": low if known else None, "high": high if known else None}


def _point(run: Mapping[str, Any]) -> tuple[Any, ...]:
    return run["temperature"], run["tree"], run["method"]


def _key(run: Mapping[str, Any]) -> tuple[Any, ...]:
    return *_point(run), run["prompt"], run["repeat"]


def as_text(summary: Record) -> str:
    """A line a tree and temperature: each rule's tokens per target call, and an asterisk where they are apart
    from GSD's, the 95% interval of their difference leaving out 0."""
    lines = [f"{'T':>3} {'tree':12}" + "".join(f"{METHODS[method].name:>12}" for method in DRAFTING)]
    points = {_point(row): row for row in summary["points"]}
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


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print and write the summary."""
    parser = argparse.ArgumentParser(prog="python -m specdec.experiments.rules", description="All rules.")
    parser.add_argument("--results", type=Path, default=Path("rules.jsonl"))
    parser.add_argument("--summary", type=Path, help="where to write the summary")
    parser.add_argument("--repeats", type=int, default=1, help="texts of each prompt (default: 1)")
    parser.add_argument("--max-new-tokens", type=int, default=200)
    parser.add_argument(
        "--smoke", action="store_true", help="every stage in seconds; its numbers say nothing"
    )
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    pair, prompts = load_pair(), read_prompts(PROMPTS)
    if options.smoke:
        prompts, options.repeats, options.max_new_tokens = prompts[:2], 1, 12
    shapes, store = trees(pair), Store(options.results)
    settings: Record = {"max_new_tokens": options.max_new_tokens, "prompts": len(prompts)}
    settings["trees"] = {name: [list(path) for path in tree.paths] for name, tree in shapes.items()}
    header = {"settings": settings, "pair": {"target": pair.target.name, "draft": pair.drafting.name}}
    store.begin(header)
    measure(pair, prompts, options.repeats, options.max_new_tokens, shapes, store)
    summary = summarize(header, store.read()[1])
    print(as_text(summary))
    if options.summary:
        options.summary.write_text(json.dumps(summary, indent=1) + "\n")


if __name__ == "__main__":
    main()
