"""`python -m research.audit --engine llama.cpp-draft`: audits any engine, by default on a random pair."""

import sys
from argparse import Namespace
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from research.audit import posting, tiny
from research.audit.engines import engines
from specdec.commands import without_traceback
from specdec.exactness.audit.command import PROMPT, Subject, audit_each, parsed, parser, report_on
from specdec.exactness.audit.engines import Engine
from specdec.loading import load_with_progress


def _all(options: Namespace, drafting: Mapping[str, Any] | None) -> Mapping[str, Engine]:
    return engines(options.url, drafting)


def main(arguments: list[str] | None = None, available: Callable[..., Mapping[str, Engine]] = _all) -> int:
    """Audits the engines. Returns 1 if a difference was found, and 2 if an engine could not be audited.

    available: a function that returns the engines by name, given the command's options and transformers'
    draft arguments. A ValueError is a user's mistake.
    """
    command = parser("python -m research.audit", __doc__, engines(), "a random pair")
    sentence = "a text for the maintainers of an engine that is wrong"
    command.add_argument("--report", type=Path, help=sentence)
    options = parsed(command, arguments)
    pair = load_with_progress(options, "stories") if options.target or options.draft else None

    def random(name: str, vocab_size: int) -> Subject:
        models, drafting = tiny.models(name, vocab_size)
        engine = available(options, drafting)[name]
        return Subject(name, engine, models, options.prompt or tiny.PROMPT, f"random, {vocab_size} tokens")

    def find(name: str) -> Subject:
        if pair is None:
            return random(name, tiny.TOKENS)
        return Subject(name, available(options, None)[name], pair, options.prompt or PROMPT)

    def post(name: str, top_k: int) -> None:
        """Write a report for the maintainers, on the smallest vocabulary that shows the difference."""
        for vocab_size in posting.VOCABULARIES if options.report else ():
            subject = random(name, vocab_size)._replace(prompt=tiny.PROMPT)
            report = report_on(subject, min(top_k, vocab_size - 1), options)
            if report.verdict == "wrong":
                options.report.write_text(posting.posting(report, vocab_size))
                print(f"written: {options.report}, a vocabulary of {vocab_size}")
                return
        if options.report:
            print(f"{name}: no vocabulary of {posting.VOCABULARIES} tokens shows the difference")

    return audit_each(options, find, post)


if __name__ == "__main__":
    with without_traceback():
        sys.exit(main())
