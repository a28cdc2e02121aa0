"""The panel's view of one summary as plain data.

The summary is the one in the repository, or that of the file which `--results FILE` names: a summary that
`python -m research.experiments --summary` wrote, or the JSON lines of its runs.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from components.experiments import beyond, figures, files, same_trees, serving, words
from components.page import plots
from components.page.questions import Answer, answers
from research.experiments.findings import VERDICTS
from specdec.methods import METHODS

_NOT_WHOLE = "The experiment is not finished. These are its numbers so far."
_MARKS = (
    "Marks: measured, with 95% intervals. Dotted lines: predicted from the acceptance R. Grey lines: upper "
    "bounds."
)

View = dict[str, Any]
_own: View | None = None


def use(path: Path) -> None:
    """Show this file's results instead of the committed ones. ValueError names the file and what is wrong
    with it."""
    global _own
    # late, because it imports transformers, for which the page must not wait
    from research.experiments.paper import read_summary

    try:
        shown = view(read_summary(path))
        json.dumps(shown, allow_nan=False)
    except ArithmeticError as error:
        raise ValueError(f"results = {str(path)!r}: a number is out of range ({error})") from None
    except (ValueError, TypeError, AttributeError, LookupError, RecursionError) as error:
        what = str(error) if isinstance(error, ValueError) else f"a part is missing ({error!r:.80})"
        raise ValueError(f"results = {str(path)!r}: {what}") from None
    _own = shown


@answers
def shipped(_: Any) -> Answer:
    """The view of `--results FILE` if one was given, otherwise of the committed results, which also has
    figures that are not in the paper."""
    if _own is not None:
        return _own
    shown = view(json.loads(files.SHIPPED.read_text()))
    return shown | {"figures": [*shown["figures"], *same_trees.views(), *serving.views(), *beyond.views()]}


def view(summary: words.Summary) -> View:
    """The whole view of one summary."""
    methods = [method for method in METHODS if method in summary["acceptance"]]
    of_method = [figure(summary, method) for method in methods for figure in (_tokens, _increments)]
    return {
        "about": words.title(summary),
        "note": "" if summary["complete"] else _NOT_WHOLE,
        "methods": [[method, METHODS[method].name] for method in methods],
        "figures": [*of_method, _acceptance(summary), *([_difference(summary)] if len(methods) > 1 else [])],
        "findings": [
            {name: finding[name] for name in ("found", "statement", "words", "place")}
            | {"verdict": VERDICTS[finding["found"]]}
            for finding in summary["findings"]
        ],
    }


def _tokens(summary: words.Summary, method: str) -> View:
    return plots.view(
        "Tokens per target call against k",
        "Paper: Figure 3; bounds of Lemma 4.2, Theorem 4.1 in the table",
        words.about_tokens(summary, method),
        _MARKS,
        figures.tokens_against_k(summary, method),
        words.tokens_table(summary, method),
        id="tokens",
        method=method,
    )


def _increments(summary: words.Summary, method: str) -> View:
    return plots.view(
        "What one more drafted token adds",
        "Paper: Figure 4; growth of Lemma 4.2's bound with m fixed",
        words.about_increments(summary, method),
        "Marks: measured, with 95% intervals. Dotted lines: predicted from the acceptance R. Grey line: the "
        "growth of the upper bound. The bound limits the tokens, not their growth, so marks may lie above "
        "the line. A logarithmic axis can't show values of 0 or less; they are in the table.",
        figures.increments_against_k(summary, method),
        words.increments_table(summary, method),
        id="increments",
        method=method,
    )


def _acceptance(summary: words.Summary) -> View:
    return plots.view(
        "Acceptance by child index, R",
        "Paper: Figure 4, batch; R of Section 4, Equation 3; Lemma 3.1 for index 0",
        words.about_acceptance(summary),
        "Marks: counted in runs with the batch topology, with 95% intervals. Lines: the R that chose "
        "the trees. Dotted lines: computed from the models' distributions.",
        figures.acceptance_by_index(summary),
        words.acceptance_table(summary),
        id="acceptance",
    )


def _difference(summary: words.Summary) -> View:
    return plots.view(
        "GSD minus ERSD",
        "Paper: Section 5 and Lemma 3.1, in words",
        words.about_difference(summary),
        "Above the line at 0, GSD yields more tokens than ERSD. Both have the same prompts and seeds; "
        "intervals are 95%.",
        figures.gsd_minus_ersd(summary),
        words.difference_table(summary),
        id="difference",
    )
