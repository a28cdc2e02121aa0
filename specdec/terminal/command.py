"""Options, errors and exit codes of the command `specdec`.

specdec "Once upon a time" --method ersd --topology auto
specdec "Once upon a time" --compare
specdec serve | bench | audit ...
"""

from __future__ import annotations

import argparse
import json
import runpy
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from specdec.commands import Parser, add_pair, columns, without_collection
from specdec.decoding.run import Run, Shape
from specdec.decoding.shared_mass import measure_shared_mass
from specdec.drafters.catalogue import has_tree
from specdec.methods import METHODS
from specdec.pair import ModelPair
from specdec.settings import SETTINGS, RunSettings, add_options
from specdec.terminal.decoding import chosen, compared, measured, named
from specdec.terminal.printing import explained, in_colours, legend, painted
from specdec.waiting import Waiting

COMMANDS = {"bench": "specdec.bench.command", "audit": "specdec.exactness.audit.command"}
"""The modules of the other commands, each with a function `main(arguments)`. `serve` has no module."""
Prompt = str | list[int]
_PAGE = Path(__file__).resolve().parent.parent.parent / "app.py"


def main(arguments: Sequence[str] | None = None) -> None:
    """Decode, or run another command and exit with its exit code. A ValueError is a mistake in the user's
    input."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words and (words[0] in COMMANDS or words[0] == "serve"):
        sys.exit(_hand_over(words[0], words[1:]))
    decode(parser().parse_args(words))


def parser() -> argparse.ArgumentParser:
    """The options for decoding."""
    result = Parser(
        prog="specdec",
        description="Decode a prompt speculatively. Other commands: "
        + ", ".join(["serve (the page)", *COMMANDS])
        + "; each has its own --help. bench measures the speed relative to plain decoding.",
    )
    result.add_argument(
        "prompt", nargs="?", help="text to continue; without it, the text from standard input"
    )
    add_options(result, *SETTINGS)
    result.set_defaults(max_new_tokens=100)
    result.add_argument(
        "--topology",
        default="auto",
        help="auto (the fastest, measured), simple, sequence(k), batch(k), specinfer(k), optimal(k)",
    )
    add_pair(
        result,
        "hub id, folder or GGUF file; without a pair, smollm2 if its weights are installed, otherwise "
        "stories",
    )
    result.add_argument(
        "--chat", action="store_true", help="send the prompt through the model's chat template"
    )
    result.add_argument("--compare", action="store_true", help="compare all methods in a table")
    result.add_argument(
        "--explain",
        action="store_true",
        help="also print what the draft can propose and why auto chose its tree",
    )
    result.add_argument(
        "--json", action="store_true", help="print the record and the numbers as one line of JSON"
    )
    return result


def decode(options: argparse.Namespace) -> None:
    """Load the models, decode, and print. A ValueError names a bad option before anything is loaded."""
    settings = RunSettings.of(**{name: getattr(options, name) for name in SETTINGS})
    named(options.topology)
    text = _prompt(options.prompt)
    pair = _loaded(options)
    prompt = pair.chat_prompt(text) if options.chat else text
    if options.explain:
        _explain(pair)
    topology: Shape = None
    if has_tree("ersd" if options.compare else settings.method, settings.drafter):
        with Waiting("measuring acceptance"):
            topology = chosen(pair, options.topology, settings)
    show = _compare if options.compare else _decode
    show(options, pair, prompt, settings, topology)


def _loaded(options: argparse.Namespace) -> ModelPair:
    with without_collection():
        with Waiting("loading transformers"):  # this import takes seconds
            from specdec.loading import load_with_progress
        return load_with_progress(options)


def _explain(pair: ModelPair) -> None:
    """Print the names of the models, and which tokens a draft with another tokenizer can propose."""
    with Waiting("measuring what the draft can propose"):
        measure_shared_mass(pair)
    for role, model in (("target", pair.target), ("draft", pair.draft)):
        note = getattr(model, "note", "")
        print(f"{role}: {'none' if model is None else model.name}{note and '. '}{note}", file=sys.stderr)


def _decode(
    options: argparse.Namespace, pair: ModelPair, prompt: Prompt, settings: RunSettings, topology: Shape
) -> None:
    colours = in_colours(sys.stdout)
    rounds = Run(pair, prompt, settings, topology)
    for round in rounds:
        if not options.json:
            print("".join(painted(token, colours) for token in round.tokens), end="", flush=True)
    generation = rounds.generation
    if options.explain and generation.choice is not None:
        print(f"\n{explained(generation)}", file=sys.stderr)
    numbers = measured(generation)
    if options.json:
        print(json.dumps(numbers | {"generation": json.loads(generation.to_json())}))
        return
    kinds = legend((token for round in generation.rounds for token in round.tokens), colours)
    print("\n", *filter(None, (kinds, _summary(numbers, rounds.seed))), sep="\n")


def _summary(numbers: dict[str, Any], seed: int) -> str:
    calls = f"{numbers['tokens']} tokens in {numbers['target_calls']} target calls"
    speed = f"{numbers['ms_per_token']:.1f} ms per token"
    return f"{calls}, {numbers['acceptance']['mean_length']:.2f} per call; {speed}; seed {seed}"


def _compare(
    options: argparse.Namespace, pair: ModelPair, prompt: Prompt, settings: RunSettings, topology: Shape
) -> None:
    with Waiting(f"decoding with {len(METHODS)} methods"):
        generations = compared(pair, prompt, settings, topology)
    for each in generations:
        if options.explain and each.choice is not None:
            print(f"{METHODS[each.method].name}\n{explained(each)}", file=sys.stderr)
    plain = generations[0].token_ids
    rows = [measured(each) | {"same_text": each.token_ids == plain} for each in generations]
    if options.json:
        print(json.dumps(rows))
        return
    rates = [row["acceptance"] for row in rows]
    lines = [
        ("", [METHODS[row["method"]].name for row in rows]),
        ("tokens", [str(row["tokens"]) for row in rows]),
        ("target calls", [str(row["target_calls"]) for row in rows]),
        ("tokens per call", [f"{rate['mean_length']:.2f}" for rate in rates]),
        ("accepted of drafted", [f"{rate['num_accepted']}/{rate['num_drafted']}" for rate in rates]),
        ("ms per token", [f"{row['ms_per_token']:.1f}" for row in rows]),
        ("text of plain decoding", ["yes" if row["same_text"] else "no" for row in rows]),
    ]
    print(columns([[name, *cells] for name, cells in lines]))


def _prompt(prompt: str | None) -> str:
    if prompt is not None:
        return prompt
    try:
        text = "" if sys.stdin.isatty() else sys.stdin.read().removesuffix("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"the prompt is not {error.encoding} text: {error.reason}") from error
    if not text:
        raise ValueError("no prompt: give one, as in  specdec 'Once upon a time'")
    return text


def _hand_over(command: str, arguments: list[str]) -> Any:
    """Run the other command and return its exit code, if it has one."""
    if command == "serve":
        return _serve(arguments)
    with Waiting(f"starting {command}"):
        module = import_module(COMMANDS[command])
    return module.main(arguments)


def _serve(arguments: list[str]) -> None:
    if not _PAGE.is_file():
        raise ValueError(
            "serve: the page runs only from a checkout of the repository; the package is the decoder alone"
        )
    sys.argv = [str(_PAGE), *arguments]
    sys.path.insert(0, str(_PAGE.parent))
    runpy.run_path(str(_PAGE), run_name="__main__")
