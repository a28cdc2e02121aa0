"""The colours of the page's style sheet, and the card that surrounds the output in a notebook."""

from __future__ import annotations

import re
from functools import cache

from specdec.shipped import ASSETS

_CARD = ASSETS / "decode" / "card.css"


@cache
def sheet() -> dict[str, dict[str, str]]:
    """The colours of the style sheet: theme ("light", "dark") -> name -> hex code."""
    text = (ASSETS / "shared" / "colours.css").read_text(encoding="utf-8")
    pairs = re.findall(r"--([a-z-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);", text)
    return {theme: {pair[0]: pair[i] for pair in pairs} for i, theme in ((1, "light"), (2, "dark"))}


@cache
def style() -> str:
    """The style element that each output contains. Its colours are light or dark, like the notebook."""
    light, dark = sheet()["light"], sheet()["dark"]
    rules = _CARD.read_text(encoding="utf-8")
    names = dict.fromkeys(re.findall(r"var\(--([a-z-]+)\)", rules))
    pairs = " ".join(f"--{name}: light-dark({light[name]}, {dark[name]});" for name in names)
    return f"<style>.specdec {{ {pairs} }}\n{rules}</style>"


def card(content: str) -> str:
    """Wraps HTML in the element that surrounds each output."""
    return f'{style()}<div class="specdec">{content}</div>'
