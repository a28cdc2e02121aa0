"""The shipped summaries of the experiments."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from components.page.assets import ASSETS

RESULTS = ASSETS / "results"
SHIPPED = RESULTS / "experiments.summary.json"
"""The summary of the embedded pair's experiment."""


def views(shown: Mapping[str, Callable[[Any], dict[str, Any]]]) -> list[dict[str, Any]]:
    """The views of committed results. shown: the function of each view, by the name of its file."""
    return [view(json.loads((RESULTS / f"{name}.json").read_text())) for name, view in shown.items()]
