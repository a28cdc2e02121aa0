"""The examples of the race laboratory, which `presets.json` lists, the paper's example first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple


class Preset(NamedTuple):
    """An example of two distributions. e: the exponential random numbers of the race; if empty, the page
    draws them.

    id: its name in the page's address, which never changes.
    """

    id: str
    name: str
    note: str
    tokens: list[str]
    p: list[float]
    q: list[float]
    e: list[float]


def presets() -> list[Preset]:
    """The laboratory's examples."""
    return [Preset(**entry) for entry in json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))]
