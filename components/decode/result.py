"""The gain of a run in one figure, and what to do next. It stands in place of the race until a visitor asks
why."""

from __future__ import annotations

from components.page import frame
from components.server.standalone import alone

_TEMPLATE = """
<section aria-label="What it gained">
  <p class="gain" aria-live="polite"></p>
  <p class="same"><span></span> <button type="button" class="measure" hidden>Measure again</button></p>
  <p class="reason"><span></span> <a class="pays" href="?tab=payoff">Will it pay for other models?</a></p>
  <p class="next-steps"><button type="button" class="try">Try your own</button>
    <a class="guess" href="?tab=draft">You guess</a></p>
  <p class="note">Press a word of the text to see why it was chosen.</p>
</section>
"""


def panel() -> frame.Part:
    """The result. `assets/decode/aside.js` fills it and chooses between it and the race."""
    return frame.panel("result", _TEMPLATE)


if __name__ == "__main__":
    alone(panel)
