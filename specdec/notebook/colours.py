"""The page's sheet of colours, and the card around the output in a notebook."""

from __future__ import annotations

import re
from functools import cache

from specdec.shipped import ASSETS

_CARD = ASSETS / "decode" / "card.css"


@cache
def sheet() -> dict[str, dict[str, str]]:
    """The style sheet of colours: theme (light, dark) -> name -> hex."""
    text = (ASSETS / "shared" / "colours.css").read_text(encoding="utf-8")
    themes = dict(re.findall(r"^(\S+) \{(.*?)^\}", text, re.DOTALL | re.MULTILINE))
    return {
        theme: dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", themes[selector]))
        for theme, selector in (("light", ":root"), ("dark", ".dark"))
    }


@cache
def style() -> str:
    """The style element of a card, which each output brings along. The card is light or dark like the
    notebook."""
    light, dark = sheet()["light"], sheet()["dark"]
    rules = _CARD.read_text(encoding="utf-8")
    names = dict.fromkeys(re.findall(r"var\(--([a-z-]+)\)", rules))
    pairs = " ".join(f"--{name}: light-dark({light[name]}, {dark[name]});" for name in names)
    return f"<style>.specdec {{ {pairs} }}\n{rules}</style>"


def card(content: str) -> str:
    """Wraps HTML in the element of a card."""
    return f'{style()}<div class="specdec">{content}</div>'
