"""`python -m specdec.exactness.audit --engine transformers-assisted`: audit engines on a pair."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from specdec.exactness.audit import engines
from specdec.exactness.audit.run import audit
from specdec.loading import load_pair


def main(arguments: list[str] | None = None) -> int:
    """The command; 1 where a difference was found."""
    asked = _parser().parse_args(arguments)
    pair = load_pair(asked.target, draft=asked.draft) if asked.target else load_pair()
    sampling = {"temperature": asked.temperature, "top_k": asked.top_k, "top_p": asked.top_p}
    found = False
    for name in asked.engine:
        report = audit(
            engines.engine(name, pair, asked.url, asked.openvino),
            pair,
            asked.prompt,
            engine=name,
            versions=engines.versions(name),
            decodes=asked.decodes,
            max_new_tokens=asked.tokens,
            seed=asked.seed,
            **sampling,
        )
        print(report.text(), flush=True)
        if asked.json:
            report.save(asked.json)
        found |= report.verdict != "no difference found"
    return int(found)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m specdec.exactness.audit", description=__doc__)
    add = parser.add_argument
    add("--engine", nargs="+", choices=engines.NAMES, required=True)
    add("--target", help="hub id or folder; without one, the embedded pair")
    add("--draft", help="likewise")
    add("--url", default="http://127.0.0.1:8000/v1", help="of an OpenAI completions server")
    add(
        "--openvino",
        nargs="*",
        default=[],
        metavar="FOLDER",
        help="the converted target, and draft; without, the pair is converted",
    )
    add("--prompt", default="Once upon a time")
    add("--decodes", type=int, default=2000)
    add("--tokens", type=int, default=6, help="of each decode")
    add("--temperature", type=float, default=1.0)
    add("--top-k", type=int, default=4)
    add("--top-p", type=float, default=1.0)
    add("--seed", type=int, default=0)
    add("--json", type=Path, help="a file of reports, in which this one is put")
    return parser


if __name__ == "__main__":
    sys.exit(main())
