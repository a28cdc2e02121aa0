"""The command of the bench: its options, and a run from loading the pair to the table."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from transformers.utils import logging

from specdec.bench import bandwidth
from specdec.bench.contestants import Workload, without_end
from specdec.bench.field import Field, chosen
from specdec.bench.measure import interleaved, peaks, run
from specdec.bench.profile import profile
from specdec.bench.report import profile_table, rows, table
from specdec.bench.servers import server
from specdec.bench.synthetic import PRESETS, LlamaSizes, Preset, synthetic_pair
from specdec.checks import among, whole
from specdec.commands import Parser, add_pair, to_write, write_json
from specdec.devices import machine
from specdec.drafters.copies import COPYING
from specdec.drafters.proposed import MODEL
from specdec.loading import load_with_progress
from specdec.methods import DRAFTING
from specdec.models.load import DTYPES, NAMES, PACKED, ROUNDED
from specdec.pair import ModelPair
from specdec.probs import Sampling
from specdec.settings import add_options
from specdec.shipped import CODER, PROMPTS, QUESTIONS

SYNTHETIC_PROMPT = 16
"""Number of tokens in a synthetic pair's prompts."""
TRIAL_SEED = 1 << 20
"""Seeds of trials are far from the seeds of the measurement."""


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    description = (
        "Compare the tokens per second of transformers' own decoding and of specdec. On a CPU --dtype auto "
        "takes the faster of float32 and bfloat16 for each side."
    )
    result = Parser(prog="python -m specdec.bench", description=description)
    add = result.add_argument
    add_pair(result, "hub id, folder or GGUF file; without, the embedded pair")
    add("--synthetic", help=f"a pair with random weights: {', '.join(PRESETS)}")
    shape = "layers,width,inner,heads,kv_heads,head_size"
    add("--target-shape", metavar=shape, help="six numbers that replace the synthetic preset's shape")
    add("--draft-shape", metavar=shape)
    add("--vocabulary", type=int, help="vocabulary of the synthetic pair")
    add("--acceptance", type=float, help="acceptance of the synthetic pair's first drafted token")
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
    add("--repeats", type=int, default=4, help="seeds per prompt")
    add(
        "--assisted",
        default="1,2,3,4,5,6,7,8",
        help="k to try for transformers' assisted generation; 0 leaves it and prompt lookup out",
    )
    add("--sequences", default="2,4", help="k of our sequences")
    add("--optimal", default="4,8", help="k of our optimal trees")
    add("--methods", default=",".join(DRAFTING), help="of ours that draft")
    add("--drafters", default=MODEL, help="of ours: model, copies, model+copies, with commas")
    add_options(result, "temperature", "top_k", "top_p")
    add("--server", action="append", default=[], help="NAME=URL of a running llama-server with this target")
    add("--json", type=to_write, help="file to which all figures are written")
    add("--smoke", action="store_true", help="run everything only once, which takes seconds")
    return result


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the bench and print the result. A ValueError is a user's mistake."""
    result = bench(parser().parse_args(arguments))
    print(f"\n{table(result['rows'])}")
    print("\nmilliseconds per target call by stage; times are of whole calls, with the prompt's prefill;")
    print("ratios: median of paired runs, 95% bootstrap interval; memory: peak of the whole process or GPU;")
    print("processor: the ratio to autoregressive in processor time, which other work does not change")
    print(f"\n{bandwidth.line(result['rows'], result['limits'])}")
    print(f"\n{profile_table(result['profile_ms'])}")
    print("\nprofile: milliseconds of processor time per round; races + verify: their part of the round")


def bench(options: argparse.Namespace) -> dict[str, Any]:
    """Load the pair, try settings and measure. Returns the JSON. ValueError names an invalid option."""
    # transformers repeats on every call that it takes settings from a model's config
    logging.set_verbosity_error()
    warnings.filterwarnings("ignore", module="transformers")
    settings = _settings(options)
    pairs, about = _pairs(options)
    some = next(iter(pairs.values()))
    prompts = _prompts(options, some, settings["prompts"])
    trial = [
        Workload(prompts[i % len(prompts)], TRIAL_SEED + i, settings["tokens"])
        for i in range(settings["trials"])
    ]
    few = {"lookup_k": (2,)} if options.smoke else {}
    field = Field(
        pairs,
        settings["threads"],
        Sampling(options.temperature, options.top_k, options.top_p),
        trial,
        sequences=settings["sequences"],
        optimal=settings["optimal"],
        methods=settings["methods"],
        drafters=settings["drafters"],
        assisted_k=settings["assisted"],
        **few,
    )
    contestants, tried = chosen(field, _say)
    contestants += [server(option, field.sampling, contestants[-1].threads) for option in options.server]
    for each in contestants:  # "auto" measures here
        run(each, trial[0])
    limits = bandwidth.limits(contestants, pairs)
    jobs = [Workload(p, seed, settings["tokens"]) for seed in range(settings["repeats"]) for p in prompts]
    loads: list[float] = []

    def progress(done: str) -> None:
        loads.append(os.getloadavg()[0])
        _say(done)

    samples = interleaved(contestants, jobs, progress)
    device = some.target.device
    measured = rows(contestants, samples, peaks(contestants, trial[0], device))
    result = {
        "machine": machine(device) | {"load": fmean(loads)},
        "pair": about,
        "settings": settings,
        "tried": tried,
        "profile_ms": {
            each.name: profile(pairs[each.dtype], each, trial[0])
            for each in contestants
            if each.kind == "specdec"
        },
        "limits": limits,
        "rows": bandwidth.with_shares(measured, limits),
    }
    if options.json:
        write_json(options.json, result)
    return result


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    smoke = options.smoke
    return {
        "tokens": 8 if smoke else whole("tokens", options.tokens, 2, 100_000),
        "prompts": 1 if smoke else whole("prompts", options.prompts, 1, 10_000),
        "repeats": 2 if smoke else whole("repeats", options.repeats, 1, 10_000),
        "trials": 1 if smoke else 3,
        "threads": [1] if smoke else _threads(options.threads, _device(options)),
        "assisted": _assisted(options),
        "sequences": _numbers("sequences", options.sequences),
        "optimal": _numbers("optimal", options.optimal),
        "methods": [among("methods", name, DRAFTING) for name in options.methods.split(",")],
        "drafters": [among("drafters", name, (MODEL, *COPYING)) for name in options.drafters.split(",")],
        "temperature": options.temperature,
        "top_k": options.top_k,
        "top_p": options.top_p,
    }


def _assisted(options: argparse.Namespace) -> list[int]:
    if options.assisted == "0":
        return []
    return [2] if options.smoke else _numbers("assisted", options.assisted)


def _threads(text: str, device: str) -> list[int]:
    if text != "auto":
        return _numbers("threads", text)
    if device != "cpu":
        return [1]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return [n for n in (1, 2, 4, 8, 16, 32, 64) if n <= cores]


def _numbers(name: str, text: str) -> list[int]:
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = [0]
    if min(numbers) < 1:
        raise ValueError(f"{name} = {text!r} is not a list of numbers of at least 1, such as 1,2")
    return numbers


def _device(options: argparse.Namespace) -> str:
    return options.device if options.device != "auto" or torch.cuda.is_available() else "cpu"


def _pairs(options: argparse.Namespace) -> tuple[dict[str, ModelPair], dict[str, Any]]:
    """The pair in every dtype that is tried, and a description of the pair."""
    device = _device(options)
    names = [options.dtype]
    if options.dtype == "auto":
        names = ["float32", "bfloat16"] if device == "cpu" else ["bfloat16"]
        if CODER in (options.pair, options.target):
            names = [PACKED]
    known = NAMES if options.synthetic is None else tuple(DTYPES)
    for name in (*names, options.draft_dtype or names[0]):
        if name not in known and not (name == options.draft_dtype == ROUNDED):
            raise ValueError(f"dtype = {name!r} is not one of auto, {', '.join(known)}")
    pairs: dict[str, ModelPair] = {}
    about: dict[str, Any] = {}
    for name in names:
        if options.synthetic is None:
            pair = load_with_progress(options, "stories", device=device, dtype=name)
            about = {"target": pair.target.name, "draft": pair.draft and pair.draft.name}
        else:
            preset = _preset(options)
            place = "cuda" if device == "auto" else device
            pair, reached = synthetic_pair(preset, DTYPES[name], options.draft_dtype, place)
            about = {"synthetic": options.synthetic, "acceptance": reached}
            about |= {"target": preset.target._asdict(), "draft": preset.draft._asdict()}
        pairs[name] = without_end(pair)
        about |= {"vocab_size": pair.vocab_size, "draft_dtype": options.draft_dtype or "the target's"}
        about |= {f"{role}_parameters": _parameters(getattr(pair, role)) for role in ("target", "draft")}
    return pairs, about


def _parameters(model: Any) -> int | None:
    return None if model is None else model.module.num_parameters()


def _preset(options: argparse.Namespace) -> Preset:
    if any((options.pair, options.target, options.draft)):
        raise ValueError("a synthetic pair has no target or draft to load; leave out one or the other")
    if options.synthetic not in PRESETS:
        raise ValueError(f"synthetic = {options.synthetic!r} is not one of {', '.join(PRESETS)}")
    preset = PRESETS[options.synthetic]
    shapes = {role: getattr(options, f"{role}_shape") for role in ("target", "draft")}
    given: dict[str, Any] = {role: _shape(role, text) for role, text in shapes.items() if text}
    given |= {"vocab_size": options.vocabulary, "acceptance": options.acceptance}
    return preset._replace(**{name: value for name, value in given.items() if value is not None})


def _shape(role: str, text: str) -> LlamaSizes:
    numbers = _numbers(f"{role}-shape", text)
    if len(numbers) != len(LlamaSizes._fields):
        raise ValueError(f"{role}-shape = {text!r} is not six numbers: {', '.join(LlamaSizes._fields)}")
    return LlamaSizes(*numbers)


def _prompts(options: argparse.Namespace, pair: ModelPair, count: int) -> list[list[int]]:
    if pair.tokenizer is None:
        generator = torch.Generator().manual_seed(0)
        ids = torch.randint(pair.vocab_size, (count, SYNTHETIC_PROMPT), generator=generator)
        return ids.tolist()
    path = options.prompt_file or (QUESTIONS if options.chat else PROMPTS)
    try:
        lines = [line.replace("\\n", "\n") for line in path.read_text().splitlines() if line.strip()]
    except OSError as error:
        raise ValueError(f"prompt-file = {str(path)!r} can't be read: {error}") from error
    if len(lines) < count:
        raise ValueError(f"prompts = {count}, but {path.name} has {len(lines)}")
    return [pair.chat_prompt(line) if options.chat else pair.encode(line) for line in lines[:count]]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
