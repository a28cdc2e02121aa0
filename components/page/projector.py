"""Projector mode: the page for a whole class. It is large, in high contrast and full screen, and shows only
the essentials.

Every tab fits one slide. In a tab with more content each part names its slide by `data-slide`, and a menu
switches between the slides.

`?projector=1` opens the page in this mode. It runs entirely in the browser (`assets/page/projector.js`).
"""

from __future__ import annotations

from components.page import frame

_TEMPLATE = """
<a class="for-class" href="?tab=lessons" title="Open a room for a class">Teach</a>
<button type="button" class="enter icon" aria-label="Projector mode"
  title="Projector mode: large and in high contrast, for a class">
  <svg viewBox="0 0 24 24" aria-hidden="true"><path d="M3 4h18M4 4v11h16V4M12 15v3M8 21l4-3 4 3"/></svg
  ></button>
<select class="slides" aria-label="Slide" hidden></select>
<button type="button" class="leave" aria-label="Leave projector mode" hidden>Leave <kbd>Esc</kbd></button>
"""


def panel() -> frame.Part:
    """The link to the room of a class, and the buttons that enter and leave projector mode."""
    return frame.panel("projector", _TEMPLATE)


if __name__ == "__main__":
    from components.server.standalone import alone

    alone(panel)
