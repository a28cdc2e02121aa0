"""The recorded runs that ship with the page: where they lie and what their index says.

Knows no model, so that the page can show them before one is loaded.
"""

from __future__ import annotations

import json
from typing import Any

from components.page import assets

FOLDER = assets.ASSETS / "traces"
INDEX = FOLDER / "index.json"

assets.publish(*FOLDER.glob("*.json"))  # the browser loads a run as a file: nobody waits for the model


def entries() -> list[dict[str, Any]]:
    """The index: name, title, where to look (round and step count from 0), and the twin's name or null."""
    return json.loads(INDEX.read_text()) if INDEX.exists() else []


def opening() -> dict[str, Any]:
    """The run that the page opens with; its settings are the page's defaults."""
    run: dict[str, Any] = json.loads((FOLDER / f"{entries()[0]['name']}.json").read_text())
    return run
