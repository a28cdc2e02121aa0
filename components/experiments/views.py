"""The panel's view of one summary as plain data.

The summary is the one in the repository, or that of the file which `--results FILE` names, as
`python -m research.experiments --summary` writes it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from components.experiments import beyond, paper, same_trees, serving
from components.page.assets import ASSETS
from components.page.questions import Answer, answers
from specdec.methods import METHODS
from specdec.phrases import VERDICTS

RESULTS = ASSETS / "results"
SHIPPED = RESULTS / "experiments.summary.json"
"""The summary of the embedded pair's experiment."""
STORED = {
    "rules": same_trees.rules,
    "draft_temperature": same_trees.draft_temperature,
    "serving": serving.view,
    "rounding": beyond.rounding,
    "limits": beyond.limits,
    "lists": beyond.lists,
    "ahead": beyond.ahead,
}
"""For results that the paper does not have: the function that makes the view, by the name of the file."""
_NOT_WHOLE = "The experiment is not finished. These are its numbers so far."
View = dict[str, Any]
_own: View | None = None


def use(path: Path) -> None:
    """Show this summary instead of the committed one. ValueError names the file and what is wrong with it."""
    global _own
    try:
        views = view(_summary(path))
        json.dumps(views, allow_nan=False)
    except ArithmeticError as error:
        raise ValueError(f"results = {str(path)!r}: a number is out of range ({error})") from None
    except (ValueError, TypeError, AttributeError, LookupError, RecursionError) as error:
        reason = str(error) if isinstance(error, ValueError) else f"a part is missing ({error!r:.80})"
        raise ValueError(f"results = {str(path)!r}: {reason}") from None
    _own = views


@answers
def shipped(_: Any) -> Answer:
    """The view of the file that `--results` names.

    Without this option, the view shows the stored results, also in figures that are not in the paper.
    """
    if _own is not None:
        return _own
    views = view(json.loads(SHIPPED.read_bytes()))
    further = [make(json.loads((RESULTS / f"{name}.json").read_bytes())) for name, make in STORED.items()]
    return views | {"figures": [*views["figures"], *further]}


def _summary(path: Path) -> dict[str, Any]:
    """The summary in a file. ValueError if there is none."""
    try:
        entries = json.loads(path.read_bytes())
    except OSError as error:
        raise ValueError(f"the file can't be read: {error.strerror}") from None
    except ValueError:
        entries = None
    if not isinstance(entries, dict) or not {"points", "bounds", "findings", "complete"} <= set(entries):
        raise ValueError(
            "not a summary of an experiment. If the file holds the runs of one, `python -m "
            f"research.experiments --results {path} --summary` writes a summary beside it; give that one"
        )
    return entries


def view(summary: paper.Summary) -> View:
    """The view of a summary: its figures, its findings, and where the numbers are from."""
    methods = [method for method in METHODS if method in summary["acceptance"]]
    of_method = [figure(summary, method) for method in methods for figure in (paper.tokens, paper.increments)]
    return {
        "about": title(summary),
        "note": "" if summary["complete"] else _NOT_WHOLE,
        "methods": [[method, METHODS[method].name] for method in methods],
        "figures": [
            *of_method,
            paper.acceptance(summary),
            *([paper.difference(summary)] if len(methods) > 1 else []),
        ],
        "findings": [
            {name: finding[name] for name in ("found", "statement", "words", "place")}
            | {"verdict": VERDICTS[finding["found"]]}
            for finding in summary["findings"]
        ],
    }


def title(summary: paper.Summary) -> str:
    """The pair, the amount of text, and the machine of the experiment."""
    pair, settings, versions = summary["pair"], summary["settings"], summary["versions"]
    # an unfinished experiment has fewer tokens than planned
    fewest = min((point["tokens"] for point in summary["points"]), default=0)
    parts = [
        f"Target {pair.get('target', '?')}",
        f"draft {pair.get('draft', '?')}: at least {fewest:,} tokens per point",
        f"texts of up to {settings.get('max_new_tokens', '?')} tokens",
        f"{settings.get('prompts', '?')} prompts",
        f"temperature {settings.get('temperature', '?')}",
        f"seed {settings.get('seed', '?')}; {versions.get('device', '?')}",
        f"torch {versions.get('torch', '?')}",
        f"{versions.get('date', 'no date')}.",
    ]
    return ", ".join(parts)
