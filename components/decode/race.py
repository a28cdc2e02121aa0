"""The exponential race of one position: the first arrivals under the draft and under the target."""

from __future__ import annotations

from components.page import frame
from components.server.standalone import alone

_TEMPLATE = f"""
<section aria-labelledby="race-title">
  <header><h2 id="race-title">{frame.term("race", "Race")}</h2>
    <div class="steps" role="group" aria-label="Verified token"></div>
    <button type="button" class="swap" data-other="tree">‹ Tree</button></header>
  <p class="verdict" aria-live="polite"></p>
  <div class="figure" role="img" tabindex="0" aria-label="Race"></div>
  <ul class="legend marks race-marks" aria-label="Marks">
    <li><i class="bar draft"></i>small model's race</li>
    <li><i class="bar target"></i>large model's race</li>
    <li><i class="winner draft">◆</i><i class="winner target">★</i>first {frame.term("arrival")}</li>
  </ul>
  <ul class="legend marks test-marks" aria-label="Marks">
    <li><i class="bar draft"></i>accepted if u falls here: below p / q</li>
    <li><i class="needle"></i>u, a random number</li>
  </ul>
  <p class="note"><span class="numbers"></span> <span class="rule">· the shortest bar wins</span></p>
</section>
"""


def panel() -> frame.Part:
    """The race panel. `assets/decode/race.js` draws it as SVG, fast enough for ten rounds a second."""
    return frame.panel("race", _TEMPLATE)


if __name__ == "__main__":
    alone(panel)
