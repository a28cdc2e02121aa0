"""Writes a report for an engine's maintainers: it shows the wrong distribution on the smallest vocabulary."""

import inspect

from research.audit import tiny
from specdec.exactness.audit.report import Report

VOCABULARIES = (3, 4, 6, 8, 16)
_BUILDERS = {
    "transformers-universal": ("llama", "tokenizers"),
    "transformers-gemma4": ("gemma4", "gemma4_config"),
}
_TEXT = """\
# Sampled text of {engine} does not have the target's distribution

{versions}. A random model of {vocab_size} tokens, prompt {prompt}, {settings}, {drafted} or 3 drafted \
tokens per round, {texts:,} texts with the seeds from {seed:,} on, and as many again with others.

| first tokens | exact probability | share of the texts | texts |
|---|---|---|---|
{rows}

{impossible:,} texts contain a token without probability. Tests of both runs:

{tests}

The exact probabilities are softmax of the target's own logits, in float64. {near}The models:

```python
{code}
```

`python -m research.audit --engine {engine} --report FILE` repeats this text.
"""


def posting(report: Report, vocab_size: int) -> str:
    """The report in Markdown: versions, settings, counts with exact probabilities, and the models' code."""
    engine, first = report.engine, report.trials[0]
    builders = [getattr(tiny, name) for name in _BUILDERS.get(engine, ("llama",))]
    deviations = sorted(first.deviations, key=lambda each: -each.probability)
    return _TEXT.format(
        engine=engine,
        versions=", ".join(f"{name} {version}" for name, version in report.versions.items()),
        vocab_size=vocab_size,
        prompt=list(tiny.PROMPT),
        settings=", ".join(f"{name} = {value:g}" for name, value in report.arguments.items()),
        drafted=tiny.DRAFTED,
        texts=first.decodes,
        seed=first.first_seed,
        rows="\n".join(
            f"| {each.outcome} | {each.probability:.4f} | {each.seen / each.of:.4f} | {each.seen:,} |"
            for each in deviations
        ),
        impossible=sum(trial.impossible for trial in report.trials),
        tests="\n".join(f"- {each.text()}" for trial in report.trials for each in trial.evidence),
        near="The draft is the first layer of the target. " if engine.startswith(tiny.NEAR) else "",
        code="\n\n".join(map(inspect.getsource, builders)).strip(),
    )
