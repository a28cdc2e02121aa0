"""The paper's experiments on the page: its figures and findings, from the shipped or the operator's results.

The panel fetches views from the server: plain data that `assets/experiments/panel.js` draws.
"""

from __future__ import annotations

from components.experiments.views import shipped
from components.page import assets, frame
from specdec.methods import DRAFTING


def panel() -> frame.Part:
    """The laboratory. It needs no model and fetches its first view when it becomes visible."""
    return frame.panel(
        "experiments_lab",
        frame.template("experiments/panel"),
        functions=[shipped],
        methods=list(DRAFTING),
        plotly=assets.file_url(assets.PLOTLY),
    )
