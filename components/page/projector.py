"""Projector mode: the page for a whole class. It is large, in high contrast and full screen, and shows only
the essentials.

Every view fits one slide. If a view has more content, each of its parts names its slide by `data-slide`, and
a menu switches between the slides.

`?projector=1` opens the page in this mode. It runs entirely in the browser (`assets/page/projector.js`).
"""

from __future__ import annotations

from components.page import frame


def panel() -> frame.Part:
    """The link to the room of a class, and the buttons that enter and leave projector mode."""
    return frame.panel("projector", frame.template("page/projector"))


if __name__ == "__main__":
    from components.server.standalone import alone

    alone(panel())
