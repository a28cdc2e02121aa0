"""A text for an engine's maintainers: the smallest vocabulary that shows a wrong distribution."""

from __future__ import annotations

import inspect

from research.audit import tiny
from specdec.exactness.audit.report import Report

VOCABULARIES = (3, 4, 6, 8, 16)
_BUILDERS = {"transformers-universal": ("llama", "tokenizers"), "transformers-gemma4": ("gemma4",)}


def posting(report: Report, vocab_size: int) -> str:
    """A text in Markdown: versions, setting, counts against exact probabilities, and the models' code."""
    engine, first = report.engine, report.trials[0]
    versions = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    names = _BUILDERS.get(engine, ("llama",))
    code = "\n\n".join(inspect.getsource(getattr(tiny, name)) for name in names)
    rows = [
        f"| {each.outcome} | {each.probability:.4f} | {each.seen / each.of:.4f} | {each.seen:,} |"
        for each in sorted(first.deviations, key=lambda each: -each.probability)
    ]
    tests = [f"- {each.text()}" for trial in report.trials for each in trial.evidence]
    impossible = sum(trial.impossible for trial in report.trials)
    settings = ", ".join(f"{name} = {value:g}" for name, value in report.arguments.items())
    return "\n".join(
        [
            f"# Sampled text of {engine} does not have the target's distribution",
            "",
            f"{versions}. A random model of {vocab_size} tokens, prompt {list(tiny.PROMPT)}, {settings}, "
            f"{tiny.DRAFTED} or 3 drafted tokens a round, {first.decodes:,} texts with the seeds from "
            f"{first.first_seed:,} on, and as many again with others.",
            "",
            "| first tokens | exact probability | share of the texts | texts |",
            "|---|---|---|---|",
            *rows,
            "",
            f"{impossible:,} texts hold a token without probability. Tests of both runs:",
            "",
            *tests,
            "",
            "The exact probabilities are softmax of the target's own logits, in float64. "
            f"{'The draft is the first layer of the target. ' if engine.startswith(tiny.NEAR) else ''}"
            "The models:",
            "",
            "```python",
            code.strip(),
            "```",
            "",
            f"`python -m research.audit --engine {engine} --report FILE` repeats this text.",
            "",
        ]
    )
