"""The panels of a run, and the same panels as HTML for the page that plays a run offline.

`python -m components.decode.panels` writes them for `specdec.notebook.player`, which needs no package of
the page.
"""

from __future__ import annotations

import re
from typing import Any

from components.page import frame
from components.page.catalogue import legend
from specdec.notebook.player import PANELS

OF_RUN = ("text", "tree", "race", "result", "stepper", "statistics")


def of_run(name: str, **props: Any) -> frame.Part:
    """The panel of this name in `OF_RUN`, which shows the run.

    The script `assets/decode/NAME.js` (`aside.js` for the result) fills it from the browser's store, and
    never calls the server.
    """
    return frame.panel(name, frame.template(f"decode/{name}", legend=legend()), **props)


def offline() -> str:
    """The panels as HTML in the layout of the page, for the player of a saved run."""
    text, tree, race, stepper, statistics = map(_block, ("text", "tree", "race", "stepper", "statistics"))
    return f'<div id="page">\n{text}<div id="figures">\n{tree}{race}</div>\n{stepper}{statistics}</div>\n'


def _block(name: str) -> str:
    html = re.sub(r"\n\s+", "\n", of_run(name).html)
    return html.replace(' href="?lesson=faster"', "")  # an offline page has no lessons


if __name__ == "__main__":
    PANELS.write_text(offline(), encoding="utf-8")
