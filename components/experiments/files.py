"""Reads an experiment's summary from its file: the shipped one, or the one of `app.py --results FILE`.

There are two kinds of files: the summary that `python -m research.experiments --summary` writes, and the JSON
lines of the runs themselves, which are summarised here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from components.page.assets import ASSETS

RESULTS = ASSETS / "results"
SHIPPED = RESULTS / "experiments.summary.json"
"""The summary of the embedded pair's experiment."""


def views(shown: Mapping[str, Callable[[Any], dict[str, Any]]]) -> list[dict[str, Any]]:
    """The views of committed results. shown: the function of each view, by the name of its file."""
    return [view(json.loads((RESULTS / f"{name}.json").read_text())) for name, view in shown.items()]


def read(path: Path) -> dict[str, Any]:
    """The summary in a file, or a summary of the runs in it. ValueError if the file holds neither."""
    # imported here, because they import transformers, for which the page must not wait
    from research.experiments.paper import read_summary
    from research.experiments.store import Store
    from research.experiments.summary import summarize

    text = path.read_text(encoding="utf-8")
    if not text.strip():
        raise ValueError("the file is empty")
    first, _, rest = text.partition("\n")
    if not rest.strip() or "settings" not in _object(first):
        return read_summary(path)
    header, runs = Store(path).read()
    assert header is not None, "a file with a whole first line"
    return summarize(header, runs)


def _object(line: str) -> dict[str, Any]:
    """The JSON object in a line; empty if the line has none."""
    try:
        value = json.loads(line)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
