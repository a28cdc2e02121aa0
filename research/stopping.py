"""Compares rules for stopping a draft model early: `python -m research.stopping --pair coder`.

Under "auto" the draft stops before a level that promises fewer tokens than a price (`drafters.stopping`).
Each prompt is decoded by plain decoding, by "auto" without stopping, and by "auto" with the price multiplied
by each factor. Times leave out the prompt's prefill.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

from specdec.bench.command import prompts_of
from specdec.checks import whole
from specdec.commands import Parser, add_pair, columns, ended, to_write, write_json
from specdec.decoding import auto
from specdec.decoding.run import generate
from specdec.loading import load_with_progress
from specdec.pair import ModelPair

PROMPTS = Path(__file__).resolve().parent.parent / "assets" / "twelve_prompts.txt"
FACTORS = (0.6, 0.8, 1.0, 1.2)
PLAIN, WHOLE = "plain decoding", "without stopping"


def rates(pair: ModelPair, prompts: Sequence[Sequence[int]], settings: dict[str, Any]) -> dict[str, Any]:
    """For each way of decoding: each prompt's tokens per second, and tokens per call over all prompts."""
    ways = {PLAIN: 0.0, WHOLE: math.inf} | {f"price x {factor}": factor for factor in FACTORS}
    found: dict[str, Any] = {way: {"rates": [], "tokens": 0, "calls": 0} for way in ways}
    for number, prompt in enumerate(prompts):
        for way, factor in ways.items():
            tokens, calls, seconds = _decoded(pair, prompt, factor, settings)
            found[way]["rates"].append(tokens / seconds)
            found[way]["tokens"] += tokens
            found[way]["calls"] += calls
        print(f"{number + 1} of {len(prompts)} prompts", file=sys.stderr)
    for row in found.values():
        ratios = [own / plain for own, plain in zip(row["rates"], found[PLAIN]["rates"], strict=True)]
        row["times plain decoding"] = math.exp(sum(map(math.log, ratios)) / len(ratios))
        row["tokens per call"] = row.pop("tokens") / row.pop("calls")
    return found


def _decoded(
    pair: ModelPair, prompt: Sequence[int], factor: float, settings: dict[str, Any]
) -> tuple[int, int, float]:
    """Decodes one text; returns its numbers of tokens and target calls, and the seconds.

    factor: multiplies the price; 0 stands for plain decoding, infinity for whole trees.
    """

    def price(*arguments: Any) -> Any:
        own = price_of_level(*arguments)
        return type(own)(*(factor * each for each in own))

    price_of_level, shortest = auto.price_of_level, math.inf if factor == math.inf else auto.SHORT
    way = {"method": "ar"} if factor == 0 else {"topology": "auto"}
    with patch.object(auto, "price_of_level", price), patch.object(auto, "SHORT", shortest):
        start = time.perf_counter()
        record = generate(pair, prompt, **settings | way)
        seconds = time.perf_counter() - start - record.prefill_seconds
    return len(record.token_ids), len(record.rounds), seconds


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the speed of each way to decode. ValueError is a user's mistake."""
    parser = Parser(prog="python -m research.stopping", description=__doc__)
    add_pair(parser, "hub id, folder or GGUF file; without, the embedded pair")
    add = parser.add_argument
    add("--prompt-file", type=Path, default=PROMPTS, help="a prompt in each line")
    add("--method", default="ersd", help="the method (default: ersd)")
    add("--temperature", type=float, default=0.3, help="the temperature (default: 0.3)")
    add("--tokens", type=int, default=128, help="most tokens of a text (default: 128)")
    add("--json", type=to_write, help="write the figures here")
    options = parser.parse_args(arguments)
    pair = load_with_progress(options, "stories")
    encode = pair.chat_prompt if pair.chats else pair.encode
    settings = {"method": options.method, "temperature": options.temperature, "seed": 1}
    settings["max_new_tokens"] = whole("tokens", options.tokens, 1)
    found = rates(pair, [encode(prompt) for prompt in prompts_of(options.prompt_file)], settings)
    head = ["", "times plain decoding", "tokens per call"]
    print(columns([head, *([way, *(f"{row[name]:.2f}" for name in head[1:])] for way, row in found.items())]))
    if options.json:
        write_json(options.json, found)


if __name__ == "__main__":
    with ended():
        main()
