"""The empty panels of a run as HTML, for the page that plays a run offline.

`python -m components.decode.panels` writes them for `specdec.notebook.player`, which needs no package of
the page.
"""

from __future__ import annotations

import re

from components.decode import race, statistics, stepper, text, tree
from components.page import frame
from specdec.notebook.player import PANELS


def panels() -> str:
    """The panels as HTML in the layout of the tab."""
    figures = "".join(map(_block, (tree.panel(), race.panel())))
    return (
        f'<div id="page">\n{_block(text.panel())}<div id="figures">\n{figures}</div>\n'
        f"{_block(stepper.panel())}{_block(statistics.panel())}</div>\n"
    )


def _block(panel: frame.Part) -> str:
    html = re.sub(r"\n\s+", "\n", panel.html)
    return html.replace(' href="?lesson=faster"', "")  # an offline page has no lessons


if __name__ == "__main__":
    PANELS.write_text(panels(), encoding="utf-8")
