"""Compares texts that are decoded together with the same texts decoded alone: `python -m research.batched`.

Runs with many methods, trees, samplings and lengths join and leave a batch at random rounds. Each run is then
decoded again alone, and the tokens of both are compared. Runs of ERSD are compared with plain decoding. A run
that left before its end is compared up to its last token.

    python -m research.batched --target target.gguf --draft draft.gguf
"""

import json
from argparse import ArgumentDefaultsHelpFormatter
from collections.abc import Callable, Sequence
from itertools import zip_longest
from random import Random
from typing import Any, NamedTuple

import torch

from specdec import ModelPair, Topology, stream
from specdec.checks import whole
from specdec.commands import Parser, add_pair, to_write, without_traceback, write_json
from specdec.decoding.batch import Batch
from specdec.decoding.run import Run
from specdec.loading import load_with_progress
from specdec.methods import METHODS
from specdec.race import derived_seed
from specdec.topology import batch as batch_of
from specdec.topology import sequence, specinfer

TREES = (
    *(sequence(k) for k in (1, 2, 4, 7)),
    batch_of(3),
    specinfer(8),
    Topology([(0,), (1,), (0, 0), (0, 1), (1, 0), (0, 0, 0)]),
    "auto",  # only under ERSD, because its trees change whenever another run joins or leaves
)
SAMPLINGS: tuple[dict[str, Any], ...] = (
    {},
    {"temperature": 0.7},
    {"temperature": 1.3, "top_k": 20},
    {"top_p": 0.9},
    {"temperature": 0.0},
)
LAST_JOINS = 60  # the last step at which a run joins
LEAVING = 0.1  # the share of runs that leave before their end


class Plan(NamedTuple):
    """The plan for one run of the batch."""

    prompt: Sequence[int]
    settings: dict[str, Any]
    joins: int  # the step at which it joins
    leaves: int | None  # the number of rounds after which it leaves; None: it stays until its end


class Differences(NamedTuple):
    """How many runs and tokens were compared, and how many of them differ."""

    runs: int
    tokens: int
    different_runs: int
    different_tokens: int  # all tokens of a text from its first difference on
    together: int  # the most runs in one step


def plans(pair: ModelPair, prompts: Sequence[Sequence[int]], runs: int, tokens: int, seed: int) -> list[Plan]:
    """Plans for `runs` runs with random methods, trees and samplings, of `tokens` tokens on average."""
    random, result = Random(seed), []
    for number in range(runs):
        prompt = random.choice(prompts)
        room = pair.target.context_length - len(prompt)
        method, tree = random.choice(list(METHODS)), random.choice(TREES)
        settings = {
            "method": "ersd" if tree == "auto" else method,
            "topology": tree,
            "max_new_tokens": min(room, random.randint(max(1, tokens // 5), 2 * tokens - tokens // 5)),
            "seed": derived_seed(seed, number),
            "detail": False,
            **random.choice(SAMPLINGS),
        }
        leaves = random.randint(1, 20) if random.random() < LEAVING else None
        result.append(Plan(prompt, settings, random.randint(0, LAST_JOINS), leaves))
    return result


def compared(
    pair: ModelPair, schedule: Sequence[Plan], spoil: Callable[[Batch], None] = lambda _: None
) -> Differences:
    """Decodes the planned runs together, then each alone, and counts differing runs and tokens. A run of ERSD
    is compared with plain decoding.

    spoil: a function that damages the batch before each step, to test that damage is detected.
    """
    runs, most = _decoded(pair, schedule, spoil)
    tokens, different = 0, []
    for plan, run in zip(schedule, runs, strict=True):
        have = run.generation.token_ids
        method = "ar" if plan.settings["method"] == "ersd" else plan.settings["method"]
        alone = stream(pair, plan.prompt, **plan.settings | {"method": method})
        want = [token.id for round in alone for token in round.tokens]
        tokens += len(have)
        pairs = list(zip_longest(have, want if plan.leaves is None else want[: len(have)]))
        if first := next((len(pairs) - i for i, (a, b) in enumerate(pairs) if a != b), None):
            different.append(first)
    return Differences(len(runs), tokens, len(different), sum(different), most)


def _decoded(
    pair: ModelPair, schedule: Sequence[Plan], spoil: Callable[[Batch], None]
) -> tuple[list[Run], int]:
    """The runs, decoded to their end, and the largest number of runs in one step."""
    batch, step, most = Batch(pair), 0, 0
    runs = [stream(pair, plan.prompt, **plan.settings) for plan in schedule]
    plan_of = dict(zip(runs, schedule, strict=True))
    while batch or step <= max(plan.joins for plan in schedule):
        for run in [run for run, plan in plan_of.items() if plan.joins == step]:
            batch.add(run)
        spoil(batch)
        most, step = max(most, len(batch)), step + 1
        for member in batch.step():
            if member.error is not None:
                raise member.error
            if not member.ended and len(member.run.rounds) == plan_of[member.run].leaves:
                batch.remove(member.run)
    return runs, most


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints how many tokens of a batch differ from the same runs alone. ValueError is a user's mistake."""
    parser = Parser("python -m research.batched", description=__doc__)
    parser.formatter_class = ArgumentDefaultsHelpFormatter
    add_pair(parser, "hub id, folder or GGUF file; without, the embedded pair")
    add = parser.add_argument
    add("--runs", type=int, default=40, help="number of runs in the batch")
    add("--tokens", type=int, default=360, help="mean length of a run")
    add("--seed", type=int, default=0, help="seed of the random plan of all runs")
    add("--json", type=to_write, help="file to which the figures are written")
    options = parser.parse_args(arguments)
    settings = {name: whole(name, getattr(options, name), 1) for name in ("runs", "tokens")}
    settings |= {"threads": torch.get_num_threads(), "seed": whole("seed", options.seed, 0)}
    pair = load_with_progress(options, "stories")
    pair.eos_ids = frozenset()  # long texts
    encode = pair.chat_prompt if pair.chats else pair.encode
    prompts = [encode(text) for text in ("Once upon a time", "The hungry dog", "One day, " * 60)]
    schedule = plans(pair, prompts, settings["runs"], settings["tokens"], settings["seed"])
    comparison = compared(pair, schedule)
    print(
        f"{comparison.runs} runs, up to {comparison.together} at once, {comparison.tokens:,} tokens: "
        f"{comparison.different_tokens} differ from those of the same runs alone"
    )
    if options.json:
        results = json.loads(options.json.read_bytes()) if options.json.exists() else {}
        results[pair.arithmetic] = {"settings": settings, **comparison._asdict()}
        write_json(options.json, results)


if __name__ == "__main__":
    with without_traceback():
        main()
