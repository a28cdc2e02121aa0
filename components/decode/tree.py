"""The draft tree of one round: accepted, rejected and unvisited tokens."""

from __future__ import annotations

from components.page import frame
from components.server.standalone import alone

_TEMPLATE = f"""
<section aria-labelledby="tree-title">
  <header>
    <h2 id="tree-title">Draft tree</h2>
    <span class="zoom" role="group" aria-label="Zoom of the draft tree">
      <button type="button" data-zoom="out" aria-label="Zoom out">−</button>
      <button type="button" data-zoom="in" aria-label="Zoom in">+</button>
      <button type="button" data-zoom="reset">all</button>
    </span>
    <button type="button" class="swap" data-other="race">Race ›</button>
  </header>
  <p class="verdict">One {frame.term("call", "call of the large model")} checks all guesses of the tree.</p>
  <div class="figure" role="img" tabindex="0" aria-label="Draft tree"></div>
  <ul class="legend marks" aria-label="Marks">
    <li><i class="node accepted">●</i>accepted</li>
    <li><i class="node rejected">✖</i>rejected</li>
    <li><i class="node unvisited">○</i>not used</li>
    <li><i class="node last">▲▼◆</i>large model's</li>
    <li><i class="thick"></i>unsure to sure guess</li>
  </ul>
  <p class="note inspected" aria-live="polite"
    >Point at a node of a {frame.term("path")}, or tap it, to see its numbers.</p>
</section>
"""


def panel() -> frame.Part:
    """The tree panel. `assets/decode/tree.js` draws it as SVG, fast enough for ten rounds a second."""
    return frame.panel("tree", _TEMPLATE)


if __name__ == "__main__":
    alone(panel, topology="specinfer", k=12)
