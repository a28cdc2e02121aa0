"""Record the check that the view opens with, and the number of decodes after which each fault is detected.

`python -m components.losslessness.record_checks` records the default setup. The same seed gives the same
counts again.
"""

from __future__ import annotations

import json
from typing import Any

from components.losslessness import run as lossless_run
from components.losslessness.run import ALARM, MOST, CheckSettings, new_check
from components.page.assets import ASSETS
from specdec.commands import write_json
from specdec.exactness.faults import FAULTS
from specdec.exactness.losslessness import critical

RECORDED = ASSETS / "results" / "losslessness.json"
SHOWN = ASSETS / "results" / "faults.json"
"""The file with the number of decodes after which a check detects each fault with probability one half."""


def main() -> None:
    """Record a check of the correct decoder, and the number of decodes after which each fault is detected."""
    RECORDED.write_text(json.dumps(record(CheckSettings()), separators=(",", ":")) + "\n", encoding="utf-8")
    print(f"written: {RECORDED}, {RECORDED.stat().st_size:,} bytes")
    write_json(SHOWN, {name: shows_after(name) for name in FAULTS})
    print(SHOWN.read_text(encoding="utf-8"))


def record(settings: CheckSettings) -> dict[str, Any]:
    """All updates of a check, merged into one update, whose `path` has the p-values of all updates."""
    messages = [json.loads(text) for text in lossless_run.updates(settings)]
    updates = [update for update in messages if "place" not in update]
    path = [[decodes, float(f"{p:.4g}")] for update in updates for decodes, p in update.pop("path", [])]
    values: dict[str, Any] = {name: value for update in updates for name, value in update.items()}
    del values["rounds"]
    return values | {"phase": "recorded", "path": path}


def shows_after(fault: str, decodes: int = MOST) -> int:
    """Decodes of the default setup after which this fault is detected with probability one half, to two
    digits.

    The excess of χ² over its mean grows in proportion to the number of decodes, so one measurement with
    `decodes` decodes is enough.
    """
    check = new_check(CheckSettings(method=FAULTS[fault].method, broken=True, fault=fault).checked())
    for _ in range(decodes):
        check.decode()
    statistic, freedom, _ = check.chi_square()
    count = decodes * (critical(freedom, ALARM) - freedom) / (statistic - freedom)
    return int(float(f"{max(count, 10):.2g}"))


if __name__ == "__main__":
    main()
