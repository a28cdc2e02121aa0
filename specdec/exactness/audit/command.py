"""`python -m specdec.exactness.audit --engine transformers-assisted`: audit engines on a pair."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from specdec.commands import Parser
from specdec.exactness.audit import engines
from specdec.exactness.audit.report import Report, saved
from specdec.exactness.audit.run import audit
from specdec.loading import load_with_progress

if TYPE_CHECKING:
    from specdec.pair import ModelPair


def main(arguments: list[str] | None = None) -> int:
    """Audits the engines. Returns 1 if a difference was found, and 2 if an engine could not be audited.

    ValueError is a user's mistake.
    """
    asked = _parser().parse_args(arguments)
    if asked.json:
        saved(asked.json)  # raises now what would otherwise end the command after hours
    pair = load_with_progress(asked, "stories")
    return max(_audited(name, pair, asked) for name in asked.engine)


def _audited(name: str, pair: ModelPair, asked: argparse.Namespace) -> int:
    try:
        report = _report(name, pair, asked)
        if asked.json:
            report.save(asked.json)
    except Exception as error:  # whatever an engine of others raises; the next one is audited all the same
        notes = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
        said = f"{name}: not audited, {type(error).__name__}: {error}{notes}"
        print(said, file=sys.stderr, flush=True)
        return 2
    print(report.text(), flush=True)
    return int(report.verdict != "no difference found")


def _report(name: str, pair: ModelPair, asked: argparse.Namespace) -> Report:
    engine = engines.engine(name, pair, asked.url, asked.openvino)
    with tqdm(desc=name, unit=" decodes", mininterval=1, leave=False) as bar:

        def sample(*settings: Any) -> Sequence[int] | str:
            bar.update()
            return engine(*settings)

        names = ("decodes", "temperature", "top_k", "top_p", "seed")
        settings = {name: getattr(asked, name) for name in names} | {"max_new_tokens": asked.tokens}
        versions = engines.versions(name)
        return audit(sample, pair, asked.prompt, engine=name, versions=versions, **settings)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="python -m specdec.exactness.audit", description=__doc__)
    add = parser.add_argument
    add("--engine", nargs="+", choices=engines.NAMES, required=True)
    add("--target", help="hub id or folder; without one, the embedded pair")
    add("--draft", help="likewise")
    add("--url", default="http://127.0.0.1:8000/v1", help="of an OpenAI completions server")
    converted = "the converted target, and draft; without, the pair is converted"
    add("--openvino", nargs="*", default=[], metavar="FOLDER", help=converted)
    add("--prompt", default="Once upon a time")
    add("--decodes", type=int, default=2000)
    add("--tokens", type=int, default=6, help="of each decode")
    add("--temperature", type=float, default=1.0)
    add("--top-k", type=int, default=4)
    add("--top-p", type=float, default=1.0)
    add("--seed", type=int, default=0)
    add("--json", type=Path, help="a file of reports, in which this one is put")
    return parser
