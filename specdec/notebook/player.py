"""The page that plays a run offline. The page's Save button downloads it; a notebook shows it in a frame."""

from __future__ import annotations

from functools import cache

from specdec.notebook.bundle import bundled
from specdec.shipped import ASSETS

PANELS = ASSETS / "player" / "panels.html"
"""The file with the panels before anything is drawn. `python -m components.decode.panels` writes it."""
_SHEETS = (
    *("shared/colours", "page/base", "shared/controls", "page/page"),
    *("decode/stage", "decode/text", "decode/figures", "decode/player", "decode/statistics"),
    *("decode/phone", "decode/offline"),
)
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>A recorded run of speculative decoding</title>
<style>{styles}</style>
</head><body{attributes}><div class="shell"><main class="contain">
<header class="introduction"><h1>Speculative decoding, a recorded run</h1><p class="about"></p></header>
{panels}</main></div>
<script type="application/json" id="trace"></script>
<script>(() => {{
{script}
start();
}})();</script>
</body></html>
"""


@cache
def empty(script: str = "offline") -> str:
    """The offline page without a run. The page's Save button puts a run into the element `trace`.

    script: "embedded" for a page that other sites show in a frame; it fetches the run named in its address.
    """
    return _PAGE.format(
        styles="\n".join((ASSETS / f"{name}.css").read_text(encoding="utf-8") for name in _SHEETS),
        panels=PANELS.read_text(encoding="utf-8"),
        script=bundled(ASSETS, f"decode/{script}.js"),
        attributes=" data-embedded" if script == "embedded" else "",
    )


def page(trace: str, framed: bool = False) -> str:
    """The offline page with a run.

    trace: the JSON of a `Generation`. framed: for a notebook's frame, where the run does not start by itself.
    """
    start = 'id="trace">'
    escaped = trace.replace("<", "\\u003c")  # "</script" would end the element
    filled = empty().replace(start, start + escaped, 1)
    return filled.replace("<body>", "<body data-framed>", 1) if framed else filled
