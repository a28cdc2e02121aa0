"""The drafted tree of one round: what was accepted, what was rejected, what was never looked at."""

from __future__ import annotations

import gradio as gr

from components import figures, page

_TEMPLATE = """
<section aria-labelledby="tree-title">
  <header><h2 id="tree-title">Draft tree</h2></header>
  <p class="verdict">One target evaluation checks all drafted tokens of the tree.</p>
  <ul class="legend marks" aria-label="Marks">
    <li><i class="node root">■</i>text so far</li>
    <li><i class="node accepted">●</i>accepted</li>
    <li><i class="node rejected">✖</i>rejected</li>
    <li><i class="node unvisited">○</i>not visited</li>
    <li><i class="node last">◆</i>ends the round</li>
  </ul>
  <div class="figure" role="img" aria-label="Draft tree"></div>
</section>
"""


def panel() -> gr.HTML:
    """The tree panel; one `Plotly.react` figure that lives as long as the page."""
    return page.panel(
        "tree", _TEMPLATE, figure=figures.skeleton(figures.tree()), plotly=page.file_url(page.PLOTLY)
    )


if __name__ == "__main__":
    page.alone(panel, topology="specinfer", k=12)
