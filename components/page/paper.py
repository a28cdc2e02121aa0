"""The view that lists the paper's results and where this page shows them."""

from __future__ import annotations

from components.page import frame


def panel() -> frame.Part:
    """The view. It needs no script."""
    return frame.Part(frame.template("page/paper"))
