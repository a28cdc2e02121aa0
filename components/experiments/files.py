"""The files of the experiments' summaries."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from components.page.assets import ASSETS

RESULTS = ASSETS / "results"
SHIPPED = RESULTS / "experiments.summary.json"
"""The summary of the embedded pair's experiment."""


def views(makers: Mapping[str, Callable[[Any], dict[str, Any]]]) -> list[dict[str, Any]]:
    """The views of results that are stored in the repository. makers: for each result file, by name, the
    function that makes its view."""
    return [view(json.loads((RESULTS / f"{name}.json").read_text())) for name, view in makers.items()]


def summary(path: Path) -> dict[str, Any]:
    """The summary in a file. ValueError if there is none."""
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
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
