"""`specdec audit --engine ours-ersd`: audits engines, for example your own server, on a pair."""

from __future__ import annotations

import gc
import itertools
import sys
from argparse import ArgumentParser
from argparse import Namespace as Arguments
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tqdm import tqdm

from specdec.commands import Parser
from specdec.exactness.audit.engines import Engine, engines
from specdec.exactness.audit.report import Report, saved
from specdec.exactness.audit.run import audit
from specdec.loading import load_with_progress

if TYPE_CHECKING:
    from specdec.pair import ModelPair

PROMPT = "Once upon a time"


class Subject(NamedTuple):
    """An engine to audit, with the pair and the prompt. model: the model's name in the report; "" takes the
    target's name."""

    name: str
    engine: Engine
    pair: ModelPair
    prompt: str | Sequence[int]
    model: str = ""


def main(arguments: list[str] | None = None) -> int:
    """Audit the engines. Returns 1 if a difference was found, and 2 if an engine could not be audited.

    A ValueError is a user's mistake.
    """
    options = parsed(parser("specdec audit", __doc__, engines(), "stories"), arguments)
    pair, available = load_with_progress(options, "stories"), engines(options.url)
    return audit_each(
        options, lambda name: Subject(name, available[name], pair, options.prompt or PROMPT), lambda *_: None
    )


def audit_each(
    options: Arguments, find: Callable[[str], Subject], when_wrong: Callable[[str, int], None]
) -> int:
    """Audit each engine with each top-k. Returns the exit code of `main`.

    options: those of `parser`. find: returns the subject for an engine's name. when_wrong: is called with the
    engine's name and the top-k if the verdict is "wrong".
    """
    codes = []
    for name, top_k in itertools.product(options.engine, options.top_k):
        try:
            subject = find(name)
            if options.json and _is_saved(subject, top_k, options):
                print(f"{name}, top-k {top_k}: already in {options.json}, not audited again", flush=True)
                continue
            report = report_on(subject, top_k, options)
            if options.json:
                report.save(options.json)
            print(report.text(), flush=True)
            if report.verdict == "wrong":
                when_wrong(name, top_k)
            codes.append(int(report.verdict != "no difference found"))
        except Exception as error:  # third-party engines may raise any error; the next audit still runs
            notes = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
            message = f"{name}: not audited, {type(error).__name__}: {error}{notes}"
            print(message, file=sys.stderr, flush=True)
            codes.append(2)
        finally:
            gc.collect()  # a server ends when its engine is freed, and the engine is in a reference cycle
    return max(codes, default=0)


def _is_saved(subject: Subject, top_k: int, options: Arguments) -> bool:
    """Whether the file of reports already has a report of this engine with the same versions, settings and
    number of decodes."""
    arguments = {"temperature": options.temperature, "top_k": top_k, "top_p": options.top_p}
    entry = (subject.name, subject.engine.versions(), arguments, options.decodes)
    return any(
        (each["engine"], each["versions"], each["arguments"], each["trials"][0]["decodes"]) == entry
        for each in saved(options.json).values()
    )


def report_on(subject: Subject, top_k: int, options: Arguments) -> Report:
    """Audit a subject with a progress bar, and return the report. options: those of `parser`."""
    name, engine, pair, prompt, model = subject
    settings = {each: getattr(options, each) for each in ("decodes", "temperature", "top_p", "seed")}
    track = partial(tqdm, desc=name, unit=" decodes", mininterval=1, leave=False)
    sample = engine.start(pair)
    report = audit(sample, pair, prompt, max_new_tokens=options.tokens, top_k=top_k, track=track, **settings)
    versions, model = engine.versions(), model or report.model
    return replace(report, engine=name, rule=engine.rule, versions=versions, model=model)


def parsed(parser: ArgumentParser, arguments: list[str] | None) -> Arguments:
    """Parse the options.

    ValueError if the file of reports can't be read. It is checked at once, because an audit takes hours.
    """
    options = parser.parse_args(arguments)
    if not options.url.startswith(("http://", "https://")):
        raise ValueError(f"url = {options.url!r:.60} is not an address such as http://127.0.0.1:8000/v1")
    if options.json:
        saved(options.json)
    return options


def parser(prog: str, description: str | None, names: Iterable[str], usual: str) -> ArgumentParser:
    """The options of an audit. names: the names of the engines. usual: the name of the pair that is used
    without `--target`."""
    result = Parser(prog=prog, description=description)
    add = result.add_argument
    add("--engine", nargs="+", choices=names, required=True)
    add("--target", help=f"hub id or folder (default: {usual})")
    add("--draft", help="hub id or folder")
    add("--url", default="http://127.0.0.1:8000/v1", help="address of an OpenAI completions server")
    add("--prompt", help=f"default: {PROMPT!r}")
    add("--decodes", type=int, default=5000)
    add("--tokens", type=int, default=3, help="number of tokens in each decoded text")
    add("--temperature", type=float, default=1.0)
    add(
        "--top-k",
        type=int,
        nargs="+",
        default=[4, 0],
        help="top-k values, with one audit for each; 0 is the full vocabulary",
    )
    add("--top-p", type=float, default=1.0)
    add("--seed", type=int, default=0)
    add(
        "--json",
        type=Path,
        help="a file of reports, to which new reports are added; its audits are not repeated",
    )
    return result
