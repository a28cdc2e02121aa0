"""The recorded runs that ship with the page: their folder and their index.

This module needs no model, so the page can show the runs before one is loaded.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

from components.page import assets

FOLDER = assets.ASSETS / "traces"
INDEX = FOLDER / "index.json"

_DIGITS = 6
"""The number of significant digits with which the numbers of a recorded run are sent. With 17 digits the file
would be almost twice as long."""


def _compact_text(file: Path) -> str:
    """The text of a recorded run in the form that is sent to browsers, with shortened numbers."""
    shortened: Any = json.loads(
        file.read_text(encoding="utf-8"), parse_float=lambda digits: float(f"{float(digits):.{_DIGITS}g}")
    )
    return json.dumps(shortened, ensure_ascii=False, separators=(",", ":"))


for _file in FOLDER.glob("*.json"):  # the browser loads a run as a file, without waiting for the model
    assets.publish_made(f"{FOLDER.name}/{_file.name}", partial(_compact_text, _file), [_file])


OPENINGS = {True: "code", False: "story"}
"""The run that a page opens with. The key says whether its models chat."""


def entries(chats: bool = True) -> list[dict[str, Any]]:
    """The index of the recorded runs. The run that the page opens with comes first.

    Each entry has a name, a title, what to look at (`look`), the moment (round and step count from 0), and
    `twin`: the name of the same run by the other method, or null."""
    index = json.loads(INDEX.read_bytes()) if INDEX.exists() else []
    return sorted(index, key=lambda entry: entry["name"] != OPENINGS[chats])


def opening(chats: bool) -> dict[str, Any]:
    """The run that the page opens with. Its prompt, seed, temperature and k are the form's first values."""
    run: dict[str, Any] = json.loads((FOLDER / f"{OPENINGS[chats]}.json").read_bytes())
    return run
