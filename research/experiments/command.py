"""The paper's experiment and its command line."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from research.experiments.findings import VERDICTS
from research.experiments.measure import sweep_of
from research.experiments.settings import STRATEGIES, Settings, read_prompts, smoke_settings
from research.experiments.store import Record
from research.experiments.summary import summarize
from research.experiments.sweep import Experiment, Rows, Sweep
from specdec.checks import whole
from specdec.commands import Parser, add_pair
from specdec.loading import load_with_progress
from specdec.shipped import PROMPTS

_OVERRIDES = ("tokens", "max_new_tokens", "temperature", "top_k", "top_p", "seed", "positions")


class Paper(Experiment):
    """The paper's experiment on any pair, with the paper's findings checked."""

    def parser(self) -> Parser:
        """The options of the command."""
        parser = super().parser()
        add = parser.add_argument
        add_pair(parser, "hub id, folder or GGUF file; without, the embedded pair")
        add("--prompts", type=Path, default=PROMPTS, help="a text file, one prompt a line")
        for name in _OVERRIDES:
            value = getattr(Settings, name)
            add("--" + name.replace("_", "-"), type=type(value), help=f"default {value}")
        for name in STRATEGIES:
            add(f"--{name}", type=_grid, metavar="K,K,...", help=f"k of {name}, with commas")
        together = "texts decoded together: the same numbers, sooner (default: 1)"
        add("--runs-at-once", type=int, default=1, metavar="N", help=together)
        return parser

    def sweep(self, options: Any) -> Sweep:
        """The runs of the pair with the settings that the options describe."""
        at_once, settings = whole("runs-at-once", options.runs_at_once, 1), settings_of(options)
        pair = load_with_progress(options, "stories")
        print(f"{pair}: {len(settings.points)} points of {settings.tokens:,} tokens", flush=True)
        return sweep_of(pair, settings, at_once)

    def summarize(self, header: Record, rows: Sequence[Record]) -> Record:
        """The numbers of the paper's figures, and its findings."""
        return summarize(header, rows)

    def report(self, results: Path, written: Path | None) -> None:
        """Prints a summary, or that of the runs in a results file, and then writes it beside the file."""
        if results.suffix == ".json":
            print(self.as_text(read_summary(results)))
            return
        written = written or results.with_suffix(".summary.json")
        super().report(results, written)
        print(f"written: {written}")

    def as_text(self, summary: Record) -> str:
        """The tables of a summary and the findings."""
        lines = ["", super().as_text(summary), ""]
        lines += [f"{VERDICTS[f['found']]:13} {f['statement']}" for f in summary["findings"]]
        if not summary["complete"]:
            lines += ["", "The experiment is not finished: these are the numbers so far."]
        return "\n".join(lines)


def _grid(text: str) -> tuple[int, ...]:
    return tuple(int(k) for k in text.split(",") if k)


def settings_of(options: argparse.Namespace) -> Settings:
    """The settings that the options describe. ValueError names an option that does not fit."""
    prompts = read_prompts(options.prompts)
    settings = smoke_settings(prompts) if options.smoke else Settings(prompts)
    given = {name: getattr(options, name) for name in (*_OVERRIDES, *STRATEGIES)}
    return replace(settings, **{name: value for name, value in given.items() if value is not None})


def read_summary(path: Path) -> dict[str, Any]:
    """The summary that the command wrote into this file. ValueError if the file holds no summary."""
    try:
        summary = json.loads(path.read_text())
    except OSError as error:
        raise ValueError(f"{path} could not be read: {error.strerror}; give a file") from None
    except ValueError:
        summary = None
    if not isinstance(summary, dict) or not {"points", "bounds", "findings", "complete"} <= set(summary):
        raise ValueError(f"{path} is no summary of an experiment; give the file that --summary wrote")
    return summary


def tables(summary: Record) -> list[Rows]:
    """The points, and the bounds of the optimal tree."""
    points = [
        [
            *(p["method"].upper(), p["strategy"], f"{p['k']}", _number(p["value"])),
            *(f"{_number(p['low'])} to {_number(p['high'])}", _number(p["prediction"])),
        ]
        for p in summary["points"]
    ]
    bounds = [
        [method.upper(), f"{row['k']}", *(_number(row[name]) for name in ("minimal", "fixed_m", "tunstall"))]
        for method, by_method in summary["bounds"].items()
        for row in by_method["by_k"]
    ]
    return [
        [["method", "strategy", "k", "measured", "95% interval", "predicted"], *points],
        [["method", "k", "bound", "m fix", "theorem"], *bounds],
    ]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


EXPERIMENT = Paper(
    name="experiments",
    about="Tokens per target call against k, acceptance by index, and bounds.",
    tables=tables,
)
