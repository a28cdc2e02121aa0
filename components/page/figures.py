"""Colours that plotly figures share, and a figure as data.

A figure has its traces, their marks and its axes; the scripts fill in the numbers and hand the same object
to `Plotly.react`.
"""

from __future__ import annotations

import json
from typing import Any

import plotly.graph_objects as go

DRAFT, TARGET = "#E69F00", "#3D8BD9"
OUTLINE = "#1F2937"
TRANSPARENT = "rgba(0,0,0,0)"


def skeleton(figure: go.Figure) -> dict[str, Any]:
    """The figure as plain JSON data, without plotly's default template (7 KB of looks)."""
    plain = json.loads(figure.to_json())
    plain["layout"].pop("template", None)
    return plain
