"""The empty panels of a run as HTML, for the page that plays a run offline.

`python -m components.decode.panels` writes them for `specdec.notebook.player`, which does not depend on
Gradio.
"""

from __future__ import annotations

import re

import gradio as gr

from components.decode import race, statistics, stepper, text, tree
from specdec.notebook.player import PANELS


def panels() -> str:
    """The panels as HTML in the layout of the tab."""
    figures = "".join(map(_block, (tree.panel(), race.panel())))
    return (
        f'<div id="page">\n{_block(text.panel())}<div id="figures">\n{figures}</div>\n'
        f"{_block(stepper.panel())}{_block(statistics.panel())}</div>\n"
    )


def _block(panel: gr.HTML) -> str:
    template = re.sub(r"\n\s+", "\n", str(panel.html_template).strip())
    template = template.replace(' href="?lesson=faster"', "")  # an offline page has no lessons
    return f'<div id="{panel.elem_id}" class="block panel">\n{template}\n</div>\n'


if __name__ == "__main__":
    PANELS.write_text(panels(), encoding="utf-8")
