"""Compares the speed of "auto" with other ways to decode. `--against` names the others.

    python -m research.auto_speed --pair coder --against trees

trees   fixed trees
prices  "auto" without early stops, and with the price of a further level multiplied by each of `FACTORS`
        (`specdec.drafters.stopping`)
copies  "auto" with copies from the text beside the draft model, and copies alone

Each text is decoded in all ways, in turns. Times leave out the prompt's prefill. Ratios are geometric means
over the texts.
"""

import json
import math
import sys
import time
from argparse import ArgumentDefaultsHelpFormatter
from collections.abc import Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import Any
from unittest.mock import patch

import numpy as np

from specdec import ModelPair, measure_acceptance, optimal_topology, stream
from specdec.bench.command import prompts_of
from specdec.checks import whole
from specdec.commands import Parser, add_pair, columns, to_write, without_traceback, write_json
from specdec.decoding import auto
from specdec.loading import load_with_progress
from specdec.race import derived_seed
from specdec.topology import sequence

PROMPTS = Path(__file__).resolve().parent.parent / "assets" / "twelve_prompts.txt"
FACTORS = (0.6, 0.8, 1.0, 1.2)
DEPTHS, SIZES = (1, 2, 3, 4, 5, 6), (4, 8)  # drafted tokens of the fixed sequences and optimal trees
LATE = 64  # from this many tokens on, texts are also timed separately: by then "auto" has learnt
PLAIN, AUTO = "plain decoding", "auto"


def ways_of(against: str, pair: ModelPair, settings: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The ways to decode, as arguments of `stream`: plain decoding, and those that `against` names."""
    ways: dict[str, dict[str, Any]] = {PLAIN: {"method": "ar"}}
    if against == "prices":
        factors = {"without stopping": math.inf} | {f"price x {factor}": factor for factor in FACTORS}
        return ways | {name: {"topology": AUTO, "factor": factor} for name, factor in factors.items()}
    if against == "copies":
        drafters = {AUTO: "model", f"{AUTO} with copies": "model+copies", "copies alone": "copies"}
        return ways | {name: {"topology": AUTO, "drafter": drafter} for name, drafter in drafters.items()}
    acceptance = measure_acceptance(pair, method=settings["method"], temperature=settings["temperature"])
    trees = {f"sequence({k})": sequence(k) for k in DEPTHS}
    trees |= {f"optimal({k})": optimal_topology(acceptance, k) for k in SIZES}
    return ways | {name: {"topology": tree} for name, tree in trees.items()} | {AUTO: {"topology": AUTO}}


def compared(
    pair: ModelPair,
    prompts: Sequence[Sequence[int]],
    settings: dict[str, Any],
    ways: dict[str, dict[str, Any]],
    repeats: int,
) -> dict[str, Any]:
    """For each way to decode: tokens per second of each text, ratios to plain decoding, tokens per call."""
    texts: dict[str, list[np.ndarray]] = {way: [] for way in ways}
    for number in range(repeats * len(prompts)):
        seed, prompt = derived_seed(settings["seed"], number), prompts[number % len(prompts)]
        for way in reversed(ways) if number % 2 else ways:  # against drifts of speed
            texts[way].append(_decoded(pair, prompt, **settings | ways[way] | {"seed": seed}))
        print(f"{number + 1} of {repeats * len(prompts)} texts", file=sys.stderr)
    return {way: _summary(own, texts[PLAIN]) for way, own in texts.items()}


def _decoded(pair: ModelPair, prompt: Sequence[int], factor: float = 1.0, **settings: Any) -> np.ndarray:
    """For each round of a text, the tokens so far and the seconds since the prefill, [rounds, 2]."""

    def price(*arguments: Any) -> Any:
        own = price_of_level(*arguments)
        return own._replace(level=factor * own.level, node=factor * own.node)

    price_of_level, shortest = auto.price_of_level, math.inf if factor == math.inf else auto.SHORT
    tokens, rows = 0, []
    with patch.object(auto, "price_of_level", price), patch.object(auto, "SHORT", shortest):
        run, start = stream(pair, prompt, detail=False, **settings), time.perf_counter()
        for round in run:
            tokens += len(round.tokens)
            rows.append((tokens, time.perf_counter() - start - run.prefill_seconds))
    return np.array(rows)


def _summary(own: Sequence[np.ndarray], plain: Sequence[np.ndarray]) -> dict[str, Any]:
    late_ratios, pairs = [], list(zip(own, plain, strict=True))
    for texts in pairs:
        ours, theirs = (each[-1] - each[np.searchsorted(each[:-1, 0], LATE)] for each in texts)
        if min(ours[0], theirs[0]) > LATE / 2:
            late_ratios.append(_rate(ours) / _rate(theirs))
    return {
        "rates": [_rate(text[-1]) for text in own],
        "times plain decoding": geometric_mean(_rate(a[-1]) / _rate(b[-1]) for a, b in pairs),
        f"after {LATE} tokens": geometric_mean(late_ratios) if late_ratios else None,
        "tokens per call": sum(text[-1, 0] for text in own) / sum(map(len, own)),
    }


def _rate(text: np.ndarray) -> float:
    return float(text[0] / text[1])


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the speed of each way to decode. ValueError is a user's mistake."""
    parser = Parser("python -m research.auto_speed", description=__doc__)
    parser.formatter_class = ArgumentDefaultsHelpFormatter
    add_pair(parser, "hub id, folder or GGUF file; without, the embedded pair")
    add = parser.add_argument
    add("--prompt-file", type=Path, default=PROMPTS, help="file with one prompt per line")
    add("--method", default="ersd")
    add("--temperature", type=float, default=0.3)
    add("--draft-temperature", type=float, help="the draft's temperature; a high one makes the draft useless")
    add("--tokens", type=int, default=128, help="largest number of new tokens of a text")
    add("--repeats", type=int, default=1, help="number of texts for each prompt")
    add(
        "--against",
        choices=("trees", "prices", "copies"),
        default="trees",
        help="the ways to decode that auto is compared with",
    )
    add("--json", type=to_write, help="file to which the figures are written")
    options = parser.parse_args(arguments)
    pair = load_with_progress(options, "stories")
    encode = pair.chat_prompt if pair.chats else pair.encode
    prompts = [encode(prompt) for prompt in prompts_of(options.prompt_file)]
    settings = {name: getattr(options, name) for name in ("method", "temperature", "draft_temperature")}
    settings |= {"seed": 1, "max_new_tokens": whole("tokens", options.tokens, 1)}
    ways = ways_of(options.against, pair, settings)
    result = compared(pair, prompts, settings, ways, whole("repeats", options.repeats, 1))
    lines = [["", "times plain decoding", f"after {LATE} tokens", "tokens per call"]]
    for way, row in result.items():
        lines.append([way, *("" if row[name] is None else f"{row[name]:.2f}" for name in lines[0][1:])])
    print(columns(lines))
    if options.json:
        results = json.loads(options.json.read_bytes()) if options.json.exists() else {}
        names = [Path(model.name).name for model in (pair.target, pair.drafting)]
        key = (
            f"{' with '.join(names)}, {options.method}, {options.prompt_file.stem}, "
            f"temperatures {options.temperature}, {options.draft_temperature}"
        )
        write_json(options.json, results | {key: result})


if __name__ == "__main__":
    with without_traceback():
        main()
