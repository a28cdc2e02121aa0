"""`python -m specdec.exactness.audit --engine transformers-assisted`: audit engines on a pair."""

from __future__ import annotations

import gc
import itertools
import sys
from argparse import ArgumentParser
from argparse import Namespace as Arguments
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from specdec.commands import Parser
from specdec.exactness.audit import engines, posting, tiny
from specdec.exactness.audit.report import Report, saved
from specdec.exactness.audit.run import audit
from specdec.loading import load_with_progress

if TYPE_CHECKING:
    from specdec.pair import ModelPair

Prompt = str | Sequence[int]


def main(arguments: list[str] | None = None) -> int:
    """Audits the engines. Returns 1 if a difference was found, and 2 if an engine could not be audited.

    ValueError is a user's mistake.
    """
    asked = _parser().parse_args(arguments)
    if asked.json:
        saved(asked.json)  # raises now what would otherwise end the command after hours
    pair = load_with_progress(asked, "stories") if asked.target or asked.draft else None
    given = asked.prompt or (tiny.PROMPT if pair is None else "Once upon a time")
    todo = itertools.product(asked.engine, asked.top_k)
    return max(_audited(name, top_k, pair, given, asked) for name, top_k in todo)


def _audited(name: str, top_k: int, pair: ModelPair | None, prompt: Prompt, asked: Arguments) -> int:
    try:
        report = _report(name, top_k, pair, prompt, asked)
        if report is None:
            return 0
        if asked.json:
            report.save(asked.json)
        print(report.text(), flush=True)
        if asked.report and report.verdict == "wrong":
            _post(name, top_k, asked)
    except Exception as error:  # whatever an engine of others raises; the next one is audited all the same
        notes = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
        said = f"{name}: not audited, {type(error).__name__}: {error}{notes}"
        print(said, file=sys.stderr, flush=True)
        return 2
    finally:
        gc.collect()  # a server ends with its engine, which is in a cycle
    return int(report.verdict != "no difference found")


def _report(
    name: str,
    top_k: int,
    pair: ModelPair | None,
    prompt: Prompt,
    asked: Arguments,
    vocab_size: int = tiny.TOKENS,
) -> Report | None:
    """The report; None if the file of reports has it already, of as many decodes and of these versions."""
    model, drafting = "", None
    if pair is None:
        pair, drafting = tiny.models(name, vocab_size)
        model = f"random, {vocab_size} tokens"
    names = ("decodes", "temperature", "top_p", "seed")
    settings = {each: getattr(asked, each) for each in names} | {"max_new_tokens": asked.tokens}
    versions = engines.versions(name)
    arguments = {each: settings[each] for each in ("temperature", "top_p")} | {"top_k": top_k}
    if asked.json and vocab_size == tiny.TOKENS:
        for known in saved(asked.json).values():
            same = (known["engine"], known["versions"], known["arguments"]) == (name, versions, arguments)
            if same and known["trials"][0]["decodes"] == asked.decodes:
                print(f"{name}, top-k {top_k}: audited already, in {asked.json}", flush=True)
                return None
    engine = engines.engine(name, pair, asked.url, asked.openvino, drafting)
    with tqdm(desc=name, unit=" decodes", mininterval=1, leave=False) as bar:

        class Sample:
            @property
            def calls(self) -> int | None:
                return getattr(engine, "calls", None)

            def __call__(self, *settings: Any) -> Sequence[int] | str:
                bar.update()
                return engine(*settings)

        return audit(
            Sample(), pair, prompt, engine=name, versions=versions, model=model, top_k=top_k, **settings
        )


def _post(name: str, top_k: int, asked: Arguments) -> None:
    """Writes the text for the maintainers, on the smallest vocabulary that shows the difference."""
    for vocab_size in posting.VOCABULARIES:
        report = _report(name, min(top_k, vocab_size - 1), None, tiny.PROMPT, asked, vocab_size)
        assert report is not None, "only reports on the board's vocabulary are looked up"
        if report.verdict == "wrong":
            asked.report.write_text(posting.posting(report, vocab_size))
            print(f"written: {asked.report}, a vocabulary of {vocab_size}")
            return
    print(f"{name}: no vocabulary of {posting.VOCABULARIES} shows it")


def _parser() -> ArgumentParser:
    parser = Parser(prog="python -m specdec.exactness.audit", description=__doc__)
    add = parser.add_argument
    add("--engine", nargs="+", choices=engines.NAMES, required=True)
    add("--target", help="hub id or folder, or stories; without one, a random pair of 16 tokens")
    add("--draft", help="likewise")
    add("--url", default="http://127.0.0.1:8000/v1", help="of an OpenAI completions server")
    converted = "the converted target, and draft; without, the pair is converted"
    add("--openvino", nargs="*", default=[], metavar="FOLDER", help=converted)
    add("--prompt", help="default: 'Once upon a time', and one token of a random pair")
    add("--decodes", type=int, default=5000)
    add("--tokens", type=int, default=3, help="of each decode")
    add("--temperature", type=float, default=1.0)
    add("--top-k", type=int, nargs="+", default=[4, 0], help="one audit each; 0 is the full vocabulary")
    add("--top-p", type=float, default=1.0)
    add("--seed", type=int, default=0)
    add("--json", type=Path, help="a file of reports, to which these are added; those in it are not repeated")
    add("--report", type=Path, help="a text for the maintainers of an engine that is wrong")
    return parser
