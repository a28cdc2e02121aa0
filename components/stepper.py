"""Back and forth through the rounds of a run, during it and after it; all panels follow."""

from __future__ import annotations

import gradio as gr

from components import page

_TEMPLATE = """
<section><nav aria-label="Rounds of this run">
  <button type="button" class="first" aria-label="First round" disabled>|&lt;</button>
  <button type="button" class="previous" aria-label="Previous round" disabled
    >&lt;<span class="word"> previous</span></button>
  <input type="range" min="0" max="0" value="0" aria-label="Round" disabled>
  <button type="button" class="next" aria-label="Next round" disabled
    ><span class="word">next </span>&gt;</button>
  <button type="button" class="live" aria-pressed="true" title="Follow the newest round">latest</button>
  <output>no rounds yet</output>
  <span class="keys">keys <kbd>←</kbd> <kbd>→</kbd></span>
</nav></section>
"""


def panel() -> gr.HTML:
    """The stepper: it only moves the selection in the browser's store, the server is not asked."""
    return page.panel("stepper", _TEMPLATE)


if __name__ == "__main__":
    page.alone(panel)
