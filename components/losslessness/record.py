"""Record the check that the tab opens with: `python -m components.losslessness.record`.

It is the default set-up's: the same seed gives the same counts again.
"""

from __future__ import annotations

import json
from typing import Any

from components.losslessness import run as lossless_run
from components.losslessness.run import CheckSettings
from components.page.assets import ASSETS

RECORDED = ASSETS / "results" / "losslessness.json"


def main() -> None:
    """Run the check and write what its view would have been told."""
    RECORDED.write_text(json.dumps(record(CheckSettings()), separators=(",", ":")) + "\n")
    print(f"written: {RECORDED}, {RECORDED.stat().st_size:,} bytes")


def record(settings: CheckSettings) -> dict[str, Any]:
    """A whole check as one update: its opening, its numbers at the end, and all points of its path."""
    told = [json.loads(text) for text in lossless_run.updates(settings)]
    updates = [update for update in told if "place" not in update]
    path = [[decodes, float(f"{p:.4g}")] for update in updates for decodes, p in update.pop("path", [])]
    merged: dict[str, Any] = {name: value for update in updates for name, value in update.items()}
    for name in ("run", "seq", "rounds"):
        del merged[name]
    return merged | {"phase": "recorded", "path": path}


if __name__ == "__main__":
    main()
