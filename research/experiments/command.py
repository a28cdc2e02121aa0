"""The command line of the paper's experiment."""

from __future__ import annotations

import argparse
import json
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from research.experiments.findings import VERDICTS
from research.experiments.measure import header, run
from research.experiments.settings import STRATEGIES, Settings, read_prompts, smoke_settings
from research.experiments.store import Store
from research.experiments.summary import summarize
from specdec.checks import whole
from specdec.commands import Parser, add_pair, columns, write_json
from specdec.loading import load_with_progress
from specdec.pair import ModelPair
from specdec.shipped import PROMPTS

_OVERRIDES = ("tokens", "max_new_tokens", "temperature", "top_k", "top_p", "seed", "positions")


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    description = "Tokens per target call against k, acceptance by index, and bounds."
    result = Parser(prog="python -m research.experiments", description=description)
    add = result.add_argument
    add_pair(result, "hub id, folder or GGUF file; without, the embedded pair")
    lines = "JSON lines, to which runs are appended; with --summary also a summary, .json"
    add("--results", type=Path, default=Path("experiments.jsonl"), help=lines)
    add("--prompts", type=Path, default=PROMPTS, help="a text file, one prompt a line")
    for name in _OVERRIDES:
        value = getattr(Settings, name)
        add("--" + name.replace("_", "-"), type=type(value), help=f"default {value}")
    for name in STRATEGIES:
        add(f"--{name}", type=_grid, metavar="K,K,...", help=f"k of {name}, with commas")
    together = "texts decoded together: the same numbers, sooner (default: 1)"
    add("--runs-at-once", type=int, default=1, metavar="N", help=together)
    add("--smoke", action="store_true", help="every stage in a minute")
    add("--summary", action="store_true", help="print the summary of --results, run nothing")
    return result


def _grid(text: str) -> tuple[int, ...]:
    return tuple(int(k) for k in text.split(",") if k)


def settings_of(options: argparse.Namespace) -> Settings:
    """The settings that the options describe. ValueError names an option that does not fit."""
    prompts = read_prompts(options.prompts)
    settings = smoke_settings(prompts) if options.smoke else Settings(prompts)
    given = {name: getattr(options, name) for name in (*_OVERRIDES, *STRATEGIES)}
    return replace(settings, **{name: value for name, value in given.items() if value is not None})


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs or summarises an experiment.

    ValueError is a user's mistake; KeyboardInterrupt says how to continue.
    """
    options = parser().parse_args(arguments)
    # A job that a scheduler ends by SIGTERM says how to go on, too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if options.summary and options.results.suffix == ".json":
            print(as_text(read_summary(options.results)))
        elif options.summary:
            report(options.results, settings_for(options.results, options.prompts))
        else:
            experiment(options, settings_of(options))
    except KeyboardInterrupt:
        kept = f"the {len(Store(options.results).read()[1]):,} finished runs in {options.results} are kept"
        raise KeyboardInterrupt(f"stopped: {kept}; give the same command to go on with them") from None


def settings_for(results: Path, prompts: Path) -> Settings:
    """The settings in the header of a results file. ValueError if the prompts have changed since."""
    begun, _ = Store(results).read()
    if begun is None:
        raise ValueError(f"no results in {results}; run the experiment first, or give --results")
    for name in ("settings", "pair", "versions"):
        if not isinstance(begun.get(name), dict):
            raise ValueError(f"{results}, line 1: no {name!r}; give another file")
    try:
        settings = Settings.from_json(begun["settings"], read_prompts(prompts))
    except (KeyError, TypeError) as error:
        raise ValueError(f"{results}, line 1: settings are not those of this version ({error})") from None
    if settings.to_json() != begun["settings"]:
        raise ValueError(f"{results} was made with other prompts than {prompts}; give --prompts")
    return settings


def experiment(options: argparse.Namespace, settings: Settings) -> None:
    """Loads the pair, does the runs, and reports."""
    at_once = whole("runs-at-once", options.runs_at_once, 1)
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", 1)))
    pair = load_with_progress(options, "stories")
    store = Store(options.results)
    _announce(pair, settings, store)
    run(pair, settings, store, at_once=at_once)
    report(options.results, settings)


def _announce(pair: ModelPair, settings: Settings, store: Store) -> None:
    begun, runs = store.read()
    print(f"{pair}: {len(settings.points)} points of {settings.tokens:,} tokens", flush=True)
    if begun is None:
        return
    print(f"{store.path} has {len(runs):,} finished runs, which are not done again", flush=True)
    for name, value in header(pair, settings)["versions"].items():
        before = begun["versions"].get(name)
        if name != "date" and before != value:
            print(f"note: it was begun with {name} {before}, and goes on with {value}", flush=True)


def report(results: Path, settings: Settings) -> None:
    """Prints the summary and writes it beside the results."""
    header, runs = Store(results).read()
    assert header is not None, "a report of no results"
    summary = summarize(settings, header, runs)
    path = results.with_suffix(".summary.json")
    write_json(path, summary)
    print(as_text(summary))
    print(f"written: {path}")


def read_summary(path: Path) -> dict[str, Any]:
    """The summary that `report` wrote into this file. ValueError if the file holds no summary."""
    try:
        summary = json.loads(path.read_text())
    except OSError as error:
        raise ValueError(f"{path} could not be read: {error.strerror}; give a file") from None
    except ValueError:
        summary = None
    if not isinstance(summary, dict) or not {"points", "bounds", "findings", "complete"} <= set(summary):
        raise ValueError(f"{path} is no summary of an experiment; give the file that --summary wrote")
    return summary


def as_text(summary: Mapping[str, Any]) -> str:
    """The summary as tables for a terminal."""
    points = [["method", "strategy", "k", "measured", "95% interval", "predicted"]]
    for p in summary["points"]:
        value, low, high, predicted = (_number(p[name]) for name in ("value", "low", "high", "prediction"))
        points.append([p["method"].upper(), p["strategy"], f"{p['k']}", value, f"{low} to {high}", predicted])
    bounds = [["method", "k", "bound", "m fix", "theorem"]]
    for method, by_method in summary["bounds"].items():
        for row in by_method["by_k"]:
            numbers = (_number(row[name]) for name in ("minimal", "fixed_m", "tunstall"))
            bounds.append([method.upper(), f"{row['k']}", *numbers])
    lines = ["", columns(points), "", columns(bounds), ""]
    lines += [f"{VERDICTS[f['found']]:13} {f['statement']}" for f in summary["findings"]]
    if not summary["complete"]:
        lines += ["", "The experiment is not finished: these are the numbers so far."]
    return "\n".join(lines)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
