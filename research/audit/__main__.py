"""`python -m research.audit --engine llama.cpp-draft`: audits any engine, by default on a random pair."""

import sys
from pathlib import Path

from research.audit import posting, tiny
from research.audit.engines import engines
from specdec.commands import without_traceback
from specdec.exactness.audit.command import PROMPT, Subject, audit_each, parsed, parser, report_on
from specdec.loading import load_with_progress


def main(arguments: list[str] | None = None) -> int:
    """Audits the engines. Returns 1 if a difference was found, and 2 if an engine could not be audited.

    A ValueError is a user's mistake.
    """
    command = parser("python -m research.audit", __doc__, engines(), "a random pair")
    sentence = "a text for the maintainers of an engine that is wrong"
    command.add_argument("--report", type=Path, help=sentence)
    options = parsed(command, arguments)
    pair = load_with_progress(options, "stories") if options.target or options.draft else None

    def random(name: str, vocab_size: int) -> Subject:
        models, drafting = tiny.models(name, vocab_size)
        engine = engines(options.url, drafting)[name]
        return Subject(name, engine, models, options.prompt or tiny.PROMPT, f"random, {vocab_size} tokens")

    def find(name: str) -> Subject:
        if pair is None:
            return random(name, tiny.TOKENS)
        return Subject(name, engines(options.url)[name], pair, options.prompt or PROMPT)

    def post(name: str, top_k: int) -> None:
        """Write a report for the maintainers, on the smallest vocabulary that shows the difference."""
        for vocab_size in posting.VOCABULARIES if options.report else ():
            subject = random(name, vocab_size)._replace(prompt=tiny.PROMPT)
            report = report_on(subject, min(top_k, vocab_size - 1), options)
            if report.verdict == "wrong":
                options.report.write_text(posting.posting(report, vocab_size), encoding="utf-8")
                print(f"written: {options.report}, a vocabulary of {vocab_size}")
                return
        if options.report:
            print(f"{name}: no vocabulary of {posting.VOCABULARIES} tokens shows the difference")

    return audit_each(options, find, post)


if __name__ == "__main__":
    with without_traceback():
        sys.exit(main())
