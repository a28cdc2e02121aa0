"""The paper's experiments on the page: its figures and findings, from the shipped or the operator's results.

The panel asks the server for views: plain data that `assets/experiments/panel.js` draws.
"""

from __future__ import annotations

from components.experiments.views import shipped
from components.page import assets, frame, paper
from specdec.methods import DRAFTING

_TEMPLATE = f"""
<section class="report" aria-labelledby="experiments-title">
  <div class="beside">
    <h2 id="experiments-title">Experiments</h2>
    <div class="choices" role="radiogroup" aria-label="Method"></div>
    <nav class="contents" aria-label="Contents"><ol></ol></nav>
    <details class="source"><summary>Where the numbers are from</summary>
      <p class="about"></p></details>
  </div>
  <div class="pages">
  <p class="message error-box" role="alert" hidden></p>
  <p class="lead">How many tokens per {frame.term("call", "target call")} each way of drafting gains from
  more drafted tokens {frame.term("k")}: measurements and theory. The figures are those of the paper,
    {paper.reference("Section 5")}.</p>
  <div class="plots"></div>
  <div class="findings" id="findings" data-slide="Findings" hidden>
    <h3>The paper's findings, checked against these numbers</h3>
    <table>
      <caption>Intervals are 95%, clustered by prompt.</caption>
      <thead><tr><th scope="col">verdict</th><th scope="col">finding</th><th scope="col">numbers</th>
        <th scope="col">paper</th></tr></thead>
      <tbody></tbody>
    </table>
  </div>
  </div>
</section>
"""


def panel() -> frame.Part:
    """The laboratory. It needs no model and fetches its first view when it becomes visible."""
    return frame.panel(
        "experiments_lab",
        _TEMPLATE,
        functions=[shipped],
        methods=list(DRAFTING),
        plotly=assets.file_url(assets.PLOTLY),
    )
