"""The exponential race of one position: who arrives first under the draft, who under the target."""

from __future__ import annotations

import gradio as gr

from components.page import frame
from components.server.standalone import alone

_TEMPLATE = f"""
<section aria-labelledby="race-title">
  <header><h2 id="race-title">{frame.term("race", "Race")}</h2>
    <div class="steps" role="group" aria-label="Verified token"></div>
    <button type="button" class="swap" data-other="tree">‹ Tree</button></header>
  <p class="verdict" aria-live="polite">Each token draws one random number e. It arrives at
    e&nbsp;/&nbsp;q in the draft's race and at e&nbsp;/&nbsp;p in the target's; the first to arrive wins.</p>
  <div class="figure" role="img" tabindex="0" aria-label="Arrival times"></div>
  <ul class="legend marks" aria-label="Marks">
    <li><i class="bar draft"></i>e / q, draft</li>
    <li><i class="bar target"></i>e / p, target</li>
    <li><i class="winner draft">◆</i><i class="winner target">★</i>first {frame.term("arrival")}</li>
    <li>› later<span class="more"> than shown</span></li>
  </ul>
  <p class="note numbers"></p>
  <div class="trials" role="region" aria-label="Tests of drafted tokens" tabindex="0" hidden>
    <table>
      <caption></caption>
      <thead>
        <tr><th>token</th><th>p</th><th>q</th><th class="limit"></th><th>u</th><th>verdict</th></tr>
      </thead>
      <tbody></tbody>
    </table>
  </div>
</section>
"""


def panel() -> gr.HTML:
    """The race panel; `assets/decode/race.js` draws it as SVG, which keeps up with ten rounds a second."""
    return frame.panel("race", _TEMPLATE)


if __name__ == "__main__":
    alone(panel)
