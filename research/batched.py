"""Compares texts decoded together with the same runs alone: `python -m research.batched`.

Runs with many methods, trees, samplings and lengths join and leave a batch at random rounds. Each is then
decoded again by itself, and the tokens are compared. A run that left early is compared up to its last token.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from specdec.checks import whole
from specdec.commands import Parser, ended, to_write, write_json
from specdec.decoding.batch import Batch
from specdec.decoding.run import Run, stream
from specdec.methods import METHODS
from specdec.race import derived_seed
from specdec.topology import Topology, sequence, specinfer
from specdec.topology import batch as batch_of

if TYPE_CHECKING:
    from specdec.pair import ModelPair

TREES = (
    *(sequence(k) for k in (1, 2, 4, 7)),
    batch_of(3),
    specinfer(8),
    Topology([(0,), (1,), (0, 0), (0, 1), (1, 0), (0, 0, 0)]),
    "auto",  # under ERSD, because its trees change whenever another run joins or leaves
)
SAMPLINGS: tuple[dict[str, Any], ...] = (
    {},
    {"temperature": 0.7},
    {"temperature": 1.3, "top_k": 20},
    {"top_p": 0.9},
    {"temperature": 0.0},
)
LAST_JOINS = 60
"""Number of steps within which all runs have joined."""
LEAVING = 0.1
"""Share of the runs that leave before they end."""


class Plan(NamedTuple):
    """One run of the batch.

    joins: its first step. leaves: number of rounds after which it leaves; None: it stays to its end.
    """

    prompt: Sequence[int]
    settings: dict[str, Any]
    joins: int
    leaves: int | None


class Differences(NamedTuple):
    """The numbers of compared runs and tokens, and of those that differ. together: the most runs in one
    step."""

    runs: int
    tokens: int
    different_runs: int
    different_tokens: int
    together: int


def plans(pair: ModelPair, prompts: Sequence[Sequence[int]], runs: int, tokens: int, seed: int) -> list[Plan]:
    """Runs with all methods, trees and samplings, of `tokens` tokens on average."""
    random = Random(seed)
    result = []
    for number in range(runs):
        prompt = random.choice(prompts)
        room = pair.target.context_length - len(prompt)
        settings = {
            "method": random.choice(list(METHODS)),
            "topology": random.choice(TREES),
            "max_new_tokens": min(room, random.randint(max(1, tokens // 5), 2 * tokens - tokens // 5)),
            "seed": derived_seed(seed, number),
            "detail": False,
            **random.choice(SAMPLINGS),
        }
        leaves = random.randint(1, 20) if random.random() < LEAVING else None
        result.append(Plan(prompt, settings, random.randint(0, LAST_JOINS), leaves))
    return result


def compared(
    pair: ModelPair, planned: Sequence[Plan], spoil: Callable[[Batch], None] | None = None
) -> Differences:
    """Decode runs together and alone, and count the differences.

    spoil: damages the batch before each step, to test that damage is detected.
    """
    runs, most = _decoded(pair, planned, spoil)
    tokens, different = 0, []
    for plan, run in zip(planned, runs, strict=True):
        have = run.generation.token_ids
        alone = stream(pair, plan.prompt, **plan.settings)
        want = [token.id for round in alone for token in round.tokens]
        tokens += len(have)
        expected = want if plan.leaves is None else want[: len(have)]
        if list(have) != expected:
            same = zip(have, expected, strict=False)
            first = next((i for i, (a, b) in enumerate(same) if a != b), min(len(have), len(expected)))
            different.append(max(len(have), len(expected)) - first)
    return Differences(len(runs), tokens, len(different), sum(different), most)


def _decoded(
    pair: ModelPair, planned: Sequence[Plan], spoil: Callable[[Batch], None] | None
) -> tuple[list[Run], int]:
    """The runs after they have ended, and the largest number that were decoded at once."""
    batch, step, most = Batch(pair), 0, 0
    runs = [stream(pair, plan.prompt, **plan.settings) for plan in planned]
    waiting, leaving = dict(zip(runs, planned, strict=True)), dict(zip(runs, planned, strict=True))
    while batch or waiting:
        for run in [run for run, plan in waiting.items() if plan.joins <= step]:
            batch.add(run)
            del waiting[run]
        if spoil is not None:
            spoil(batch)
        most, step = max(most, len(batch)), step + 1
        for member in batch.step():
            if member.error is not None:
                raise member.error
            if not member.ended and len(member.run.rounds) == leaving[member.run].leaves:
                batch.remove(member.run)
    return runs, most


def main(arguments: Sequence[str] | None = None) -> None:
    """Compares and prints. ValueError is a user's mistake."""
    parser = Parser(prog="python -m research.batched", description=__doc__)
    parser.add_argument("--runs", type=int, default=40, help="in one batch (default: 40)")
    parser.add_argument("--tokens", type=int, default=360, help="of a run on average (default: 360)")
    parser.add_argument("--seed", type=int, default=0, help="of the plan (default: 0)")
    parser.add_argument("--threads", type=int, default=1, help="of torch (default: 1)")
    parser.add_argument("--json", type=to_write, help="write the figures here")
    options = parser.parse_args(arguments)
    settings = {name: whole(name, getattr(options, name), 1) for name in ("runs", "tokens", "threads")}
    seed = whole("seed", options.seed, 0)
    from specdec.loading import load_pair

    torch.set_num_threads(settings["threads"])
    pair = load_pair("stories")
    pair.eos_ids = frozenset()  # long texts
    prompts = [pair.encode(text) for text in ("Once upon a time", "The hungry dog", "One day, " * 60)]
    comparison = compared(pair, plans(pair, prompts, settings["runs"], settings["tokens"], seed))
    print(
        f"{comparison.runs} runs, up to {comparison.together} at once, {comparison.tokens:,} tokens: "
        f"{comparison.different_tokens} differ from those of the same runs alone"
    )
    if options.json:
        results = json.loads(options.json.read_text()) if options.json.exists() else {}
        results[pair.arithmetic] = {"settings": settings | {"seed": seed}, **comparison._asdict()}
        write_json(options.json, results)


if __name__ == "__main__":
    with ended():
        main()
