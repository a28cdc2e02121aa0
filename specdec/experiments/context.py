"""What context-aware trees gain over the 0-th order optimal tree of the same k.

    python -m specdec.experiments.context               # the embedded pair, half an hour on a CPU
    python -m specdec.experiments.context --smoke

Acceptance is learnt from texts after the first three quarters of the prompts and written to
`assets/tiny/context.<method>.json`; the tokens per target call are measured on the last quarter, with the
same prompts and seeds for both trees. The 0-th order R is the average over the texts that were learnt from.
Runs are appended to a JSON-lines file; a killed measurement goes on where it was.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from specdec.commands import Parser, ended, to_write, write_json
from specdec.context import ContextAcceptance, ContextTree
from specdec.decoding.run import generate
from specdec.experiments.estimates import Estimate, tokens_per_call
from specdec.experiments.settings import read_prompts
from specdec.experiments.store import Record, Store
from specdec.learn import learn_context
from specdec.loading import load_pair
from specdec.optimal import optimal_topology
from specdec.pair import ModelPair
from specdec.race import derived_seed
from specdec.shipped import EMBEDDED, PROMPTS
from specdec.topology import Topology
from specdec.trace import Method

METHODS: tuple[Method, ...] = ("gsd", "ersd")
_SEED = 0x636F6E74


def learnt(
    pair: ModelPair, prompts: Sequence[str], tokens: int, folder: Path
) -> dict[Method, ContextAcceptance]:
    """The acceptance of both methods from `folder`; learnt and written there where it is missing."""
    result = {}
    for method in METHODS:
        path = folder / f"context.{method}.json"
        if not path.exists():
            learn_context(pair, prompts, method=method, tokens=tokens).save(path)
        result[method] = ContextAcceptance.load(path)
    return result


def trees(acceptance: ContextAcceptance, k: int) -> dict[str, Topology | ContextTree]:
    """The two trees that are compared."""
    return {"optimal": optimal_topology(acceptance.average, k), "context": ContextTree(acceptance, k)}


def measure(
    pair: ModelPair,
    acceptance: Mapping[Method, ContextAcceptance],
    prompts: Sequence[str],
    repeats: int,
    settings: Record,
    store: Store,
) -> None:
    """Do the runs that are not in the file yet."""
    store.begin({"settings": settings, "pair": {"target": pair.target.name, "draft": pair.drafting.name}})
    done = {_key(run) for run in store.read()[1]}
    jobs = [
        {"method": method, "tree": tree, "prompt": prompt, "repeat": repeat}
        for repeat in range(repeats)
        for prompt in range(len(prompts))
        for method in METHODS
        for tree in ("optimal", "context")
    ]
    shapes = {method: trees(acceptance[method], settings["k"]) for method in METHODS}
    for job in tqdm([job for job in jobs if _key(job) not in done], unit="run", mininterval=1):
        g = generate(
            pair,
            prompts[job["prompt"]],
            method=job["method"],
            topology=shapes[job["method"]][job["tree"]],
            max_new_tokens=settings["max_new_tokens"],
            seed=derived_seed(derived_seed(_SEED, job["prompt"]), job["repeat"]),
        )
        counts = {"tokens": len(g.token_ids), "rounds": len(g.rounds), "seconds": round(g.seconds, 3)}
        store.append(job | counts)


def summarize(settings: Record, runs: Sequence[Record]) -> Record:
    """Tokens per target call of both trees and the relative gain, intervals clustered by prompt."""
    result: Record = {"settings": settings, "runs": len(runs)}
    for method in METHODS:
        e = {tree: tokens_per_call(_of(runs, method, tree)) for tree in ("optimal", "context")}
        row = {tree: estimate.to_json() for tree, estimate in e.items()}
        result[method] = row | {"gain": _gain(e["optimal"], e["context"])}
    return result


def _of(runs: Sequence[Record], method: str, tree: str) -> list[Record]:
    return [run for run in runs if (run["method"], run["tree"]) == (method, tree)]


def _gain(before: Estimate, after: Estimate) -> dict[str, float | None]:
    """after / before - 1: each prompt's influence on the quotient, linearised."""
    quotient = after.value / before.value
    influence = {
        prompt: (after.influence[prompt] - quotient * before.influence[prompt]) / before.value
        for prompt in before.influence
    }
    return Estimate(quotient - 1, influence).to_json()


def _key(run: Mapping[str, Any]) -> tuple[Any, ...]:
    return run["method"], run["tree"], run["prompt"], run["repeat"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Learn, measure, and print the summary."""
    parser = Parser(description="The gain of context-aware trees.")
    parser.add_argument("--results", type=Path, default=Path("context.jsonl"))
    parser.add_argument("--acceptance", type=Path, default=EMBEDDED, help="folder of the learnt acceptance")
    parser.add_argument("--summary", type=to_write, help="where to write the summary")
    parser.add_argument("--k", type=int, default=16)
    parser.add_argument("--learn-tokens", type=int, default=30_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--max-new-tokens", type=int, default=200)
    parser.add_argument(
        "--smoke", action="store_true", help="every stage in seconds; its numbers say nothing"
    )
    options = parser.parse_args(arguments)
    if options.smoke:
        options.learn_tokens, options.repeats, options.max_new_tokens = 300, 1, 12
    torch.set_num_threads(1)
    pair, prompts = load_pair("stories"), read_prompts(PROMPTS)
    held_out = 4 if options.smoke else len(prompts) // 4
    acceptance = learnt(pair, prompts[:-held_out], options.learn_tokens, options.acceptance)
    settings = {"k": options.k, "max_new_tokens": options.max_new_tokens, "prompts": held_out}
    store = Store(options.results)
    measure(pair, acceptance, prompts[-held_out:], options.repeats, settings, store)
    summary = summarize(settings, store.read()[1])
    print(json.dumps(summary, indent=1))
    if options.summary:
        write_json(options.summary, summary)


if __name__ == "__main__":
    with ended():
        main()
