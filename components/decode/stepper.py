"""The player of a run, during and after decoding: play, rounds, single decisions. All panels follow it."""

from __future__ import annotations

from components.page import frame
from components.server.standalone import alone

_EFFICIENCY = (
    f"{frame.term('block efficiency', 'tokens')} per {frame.term('call', 'slow call')}"
    '<span class="mean">, on average</span>'
)
_TEMPLATE = f"""
<section><nav aria-label="Player of the run">
  <button type="button" class="play" title="Space" disabled
    ><span class="sign" aria-hidden="true">▶</span> <span class="word">play</span></button>
  <button type="button" class="skip" title="To the end" disabled>Skip</button>
  <span class="moves">
    <button type="button" class="first" aria-label="First round" title="To the start (Home)"
      disabled>|◀</button>
    <button type="button" class="previous" aria-label="Previous round" title="One round back (Shift ←)"
      disabled>◀◀</button>
    <button type="button" class="back" aria-label="Previous step" title="One step back (←)"
      disabled>◀</button>
    <button type="button" class="forward" aria-label="Next step" title="One step on (→)"
      disabled>▶</button>
    <button type="button" class="next" aria-label="Next round" title="One round on (Shift →)"
      disabled>▶▶</button>
    <button type="button" class="live" aria-label="Newest round" aria-pressed="false"
      title="To the end, and follow the newest round (End)" disabled>▶|</button>
  </span>
  <input type="range" min="0" max="0" value="0" aria-label="Round" disabled>
  <output>no rounds yet</output>
  <select class="speed" aria-label="Speed">
    <option value="real" selected>real time</option>
    <option value="decision">each step</option>
    <option value="calm">2.5 rounds/s</option>
    <option value="fast">5 rounds/s</option>
    <option value="fastest">10 rounds/s</option>
  </select>
  <span class="live-figure"><b>–</b> <span>{_EFFICIENCY}</span></span>
</nav></section>
"""


def panel() -> frame.Part:
    """The stepper. It only moves the selection in the browser's store and never calls the server."""
    return frame.panel("stepper", _TEMPLATE)


if __name__ == "__main__":
    alone(panel)
