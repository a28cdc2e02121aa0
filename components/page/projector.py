"""The page for a whole class: large, in high contrast, only what is to be seen, on the whole screen.

Every tab fits one slide. Where it has more to show, its parts name their slide by `data-slide`, and a menu
brings each.

`?projector=1` opens it so. Everything happens in the browser (`assets/page/projector.js`).
"""

from __future__ import annotations

import gradio as gr

from components.page import frame

_TEMPLATE = """
<button type="button" class="enter icon" aria-label="Projector mode"
  title="Projector mode: large and in high contrast, for a class">
  <svg viewBox="0 0 24 24" aria-hidden="true"><path d="M3 4h18M4 4v11h16V4M12 15v3M8 21l4-3 4 3"/></svg
  ></button>
<select class="slides" aria-label="Slide" hidden></select>
<button type="button" class="leave" aria-label="Leave projector mode" hidden>Leave <kbd>Esc</kbd></button>
"""


def panel() -> gr.HTML:
    """The button that enters projector mode, and the one that leaves it."""
    return frame.panel("projector", _TEMPLATE)


if __name__ == "__main__":
    from components.server.standalone import alone

    alone(panel)
