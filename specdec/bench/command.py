"""The command of the bench: its options, and a run from loading the pair to the table."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import torch
from transformers.utils import logging

from specdec.bench import bandwidth
from specdec.bench.contestants import Contestant, Workload, without_end
from specdec.bench.field import Field, chosen
from specdec.bench.measure import interleaved, peaks, run
from specdec.bench.report import rows, table
from specdec.bench.servers import server
from specdec.checks import among, whole
from specdec.commands import Parser, add_pair, to_write, write_json
from specdec.devices import machine
from specdec.drafters.catalogue import DRAFTERS, MODEL
from specdec.loading import load_with_progress
from specdec.methods import DRAFTING
from specdec.models.load import PACKED
from specdec.pair import ModelPair
from specdec.probs import Sampling
from specdec.settings import add_options
from specdec.shipped import CODER, PROMPTS, QUESTIONS

RANDOM_PROMPT = 16
"""The number of tokens in a prompt for a pair without a tokenizer."""
TRIAL_SEED = 1 << 20
"""The first seed of the trials. It is far from the seeds of the measurement."""
Loaded = tuple[dict[str, ModelPair], dict[str, Any]]
"""The same pair in several dtypes, by the dtype's name; and a description of the pair."""


def parser() -> argparse.ArgumentParser:
    """A parser for the options of the command."""
    description = (
        "Compare the tokens per second of transformers' own decoding and of specdec. On a CPU --dtype auto "
        "takes the faster of float32 and bfloat16 for each side."
    )
    result = Parser(prog="python -m specdec.bench", description=description)
    add = result.add_argument
    add_pair(result, "hub id, folder or GGUF file; without, the embedded pair")
    add(
        "--threads",
        default="auto",
        help="numbers of threads to try, with commas; auto: 1, 2, 4, ..., on a GPU only 1",
    )
    add("--tokens", type=int, default=64, help="new tokens of each text")
    add("--prompts", type=int, default=4, help="number of prompts")
    add(
        "--prompt-file",
        type=Path,
        help="file with one prompt per line (default: beginnings of stories; with --chat, questions)",
    )
    add("--chat", action="store_true", help="give the prompts to a chat model as questions")
    add("--repeats", type=int, default=4, help="number of seeds for each prompt")
    add(
        "--assisted",
        default="1,2,3,4,5,6,7,8",
        help="k to try for transformers' assisted generation; 0 leaves it out",
    )
    add("--lookup", default="2,4,8", help="k to try for transformers' prompt lookup; 0 leaves it out")
    add("--sequences", default="2,4", help="k of our sequences, with commas")
    add("--optimal", default="4,8", help="k of our optimal trees, with commas")
    add("--methods", default=",".join(DRAFTING), help="our methods that draft, with commas")
    add("--drafters", default=MODEL, help="our drafters: model, copies, model+copies, with commas")
    add_options(result, "temperature", "top_k", "top_p")
    add("--server", action="append", default=[], help="NAME=URL of a running llama-server with this target")
    add("--json", type=to_write, help="file to which all figures are written")
    add("--smoke", action="store_true", help="run everything only once, which takes seconds")
    return result


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the bench and print the result. A ValueError is a user's mistake."""
    options = parser().parse_args(arguments)
    result = compared(prepared(options))
    show(result)
    if options.json:
        write_json(options.json, result)


def show(result: dict[str, Any]) -> None:
    """Print the table of a comparison."""
    print(f"\n{table(result['rows'])}")
    print("\nmilliseconds per target call by stage; times are of whole calls, with the prompt's prefill;")
    print("ratios: median of paired runs, 95% bootstrap interval; memory: peak of the whole process or GPU;")
    print("processor: the ratio to autoregressive in processor time, which other work does not change")
    print(f"\n{bandwidth.sentence(result['rows'], result['limits'])}")


class Contest(NamedTuple):
    """The contestants, with the best settings of the trials, and the texts that they generate.

    pairs: the same pair of models in several dtypes. description: of the pair. speeds: tokens per second in
    the trials. trial, jobs: the texts of the trials and of the comparison.
    """

    pairs: dict[str, ModelPair]
    description: dict[str, Any]
    settings: dict[str, Any]
    contestants: list[Contestant]
    speeds: dict[str, Any]
    trial: list[Workload]
    jobs: list[Workload]


def prepared(
    options: argparse.Namespace, load: Callable[[argparse.Namespace], Loaded] | None = None
) -> Contest:
    """Load the pairs, try settings for all contestants, and run each contestant once to warm it up.

    load: a function that replaces `loaded`. ValueError names an invalid option.
    """
    # transformers warns at every call that it takes settings from a model's config
    logging.set_verbosity_error()
    warnings.filterwarnings("ignore", module="transformers")
    settings = _settings(options)
    pairs, description = (load or loaded)(options)
    tokens, repeats = settings["tokens"], range(settings["repeats"])
    prompts = _prompts(options, next(iter(pairs.values())), settings["prompts"])
    numbers = range(settings["trials"])
    trial = [Workload(prompts[i % len(prompts)], TRIAL_SEED + i, tokens) for i in numbers]
    jobs = [Workload(prompt, seed, tokens) for seed in repeats for prompt in prompts]
    sampling = Sampling(options.temperature, options.top_k, options.top_p)
    chosen_from = {name: settings[name] for name in ("sequences", "optimal", "methods", "drafters")}
    chosen_from |= {"assisted_k": settings["assisted"], "lookup_k": settings["lookup"]}
    contestants, speeds = chosen(Field(pairs, settings["threads"], sampling, trial, **chosen_from), _say)
    contestants += [server(option, sampling, contestants[-1].threads) for option in options.server]
    for each in contestants:
        run(each, trial[0])
    return Contest(pairs, description, settings, contestants, speeds, trial, jobs)


def compared(contest: Contest) -> dict[str, Any]:
    """Run the comparison and return all its figures, which `--json` writes."""
    limits = bandwidth.limits(contest.contestants, contest.pairs)
    loads: list[float] = []

    def progress(line: str) -> None:
        loads.append(os.getloadavg()[0])
        _say(line)

    samples = interleaved(contest.contestants, contest.jobs, progress)
    device = next(iter(contest.pairs.values())).target.device
    memory = peaks(contest.contestants, contest.trial[0], device)
    return {
        "machine": machine(device) | {"load": fmean(loads)},
        "pair": contest.description,
        "settings": contest.settings,
        "tried": contest.speeds,
        "limits": limits,
        "rows": rows(contest.contestants, samples, memory, limits),
    }


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    smoke = options.smoke
    return {
        "tokens": 8 if smoke else whole("tokens", options.tokens, 2, 100_000),
        "prompts": 1 if smoke else whole("prompts", options.prompts, 1, 10_000),
        "repeats": 2 if smoke else whole("repeats", options.repeats, 1, 10_000),
        "trials": 1 if smoke else 3,
        "threads": [1] if smoke else _threads(options.threads, device_of(options)),
        "assisted": _numbers_of_drafts("assisted", options.assisted, smoke),
        "lookup": _numbers_of_drafts("lookup", options.lookup, smoke),
        "sequences": numbers("sequences", options.sequences),
        "optimal": numbers("optimal", options.optimal),
        "methods": [among("methods", name, DRAFTING) for name in options.methods.split(",")],
        "drafters": [among("drafters", name, DRAFTERS) for name in options.drafters.split(",")],
        "temperature": options.temperature,
        "top_k": options.top_k,
        "top_p": options.top_p,
    }


def _numbers_of_drafts(name: str, text: str, smoke: bool) -> list[int]:
    """The numbers k that an option for transformers' drafts lists; an empty list for the text "0"."""
    if text == "0":
        return []
    return [2] if smoke else numbers(name, text)


def _threads(text: str, device: str) -> list[int]:
    if text != "auto":
        return numbers("threads", text)
    if device != "cpu":
        return [1]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return [n for n in (1, 2, 4, 8, 16, 32, 64) if n <= cores]


def numbers(name: str, text: str) -> list[int]:
    """The numbers in an option such as "1,2", each at least 1. ValueError names an option of another form."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) for part in parts):
        raise ValueError(f"{name} = {text!r} is not a list of numbers of at least 1, such as 1,2")
    return [int(part) for part in parts]


def device_of(options: argparse.Namespace) -> str:
    """The device for `load_pair`: the option's, but "cpu" if the option is "auto" and there is no GPU."""
    return options.device if options.device != "auto" or torch.cuda.is_available() else "cpu"


def loaded(options: argparse.Namespace) -> Loaded:
    """The pair in every dtype to try, by the dtype's name; and a description of the pair."""
    pairs = {
        name: without_end(load_with_progress(options, "stories", device=device_of(options), dtype=name))
        for name in dtypes(options)
    }
    pair = next(iter(pairs.values()))
    description = {"target": pair.target.name, "draft": pair.draft and pair.draft.name}
    return pairs, description | described(options, pair)


def dtypes(options: argparse.Namespace) -> list[str]:
    """The names of the target's dtypes to try."""
    if options.dtype != "auto":
        return [options.dtype]
    if CODER in (options.pair, options.target):
        return [PACKED]
    return ["float32", "bfloat16"] if device_of(options) == "cpu" else ["bfloat16"]


def described(options: argparse.Namespace, pair: ModelPair) -> dict[str, Any]:
    """The pair's vocabulary size, the models' numbers of parameters, and the draft's dtype."""
    models: dict[str, Any] = {"target_parameters": pair.target, "draft_parameters": pair.draft}
    sizes = {name: model and model.module.num_parameters() for name, model in models.items()}
    draft_dtype = options.draft_dtype or "the target's"
    return {"vocab_size": pair.vocab_size, "draft_dtype": draft_dtype} | sizes


def _prompts(options: argparse.Namespace, pair: ModelPair, count: int) -> list[list[int]]:
    if pair.tokenizer is None:
        generator = torch.Generator().manual_seed(0)
        return torch.randint(pair.vocab_size, (count, RANDOM_PROMPT), generator=generator).tolist()
    path = options.prompt_file or (QUESTIONS if options.chat else PROMPTS)
    lines = prompts_of(path)
    if len(lines) < count:
        raise ValueError(f"prompts = {count}, but {path.name} has {len(lines)}")
    return [pair.chat_prompt(line) if options.chat else pair.encode(line) for line in lines[:count]]


def prompts_of(path: Path) -> list[str]:
    """The prompts in a file, one per line, with `\\n` for a line break. ValueError if it can't be read."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        return [line.replace("\\n", "\n") for line in lines if line.strip()]
    except OSError as error:
        raise ValueError(f"prompt-file = {str(path)!r} can't be read: {error}") from error


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
