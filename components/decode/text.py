"""The text with the origin of every token: accepted, replaced, bonus, residual or correction."""

from __future__ import annotations

from components.page import frame
from components.page.catalogue import KINDS, STATUSES
from components.server.standalone import alone

_ORDER = ("accepted", "rejected", "correction", "residual", "bonus", "sampled")


def legend(*left_out: str) -> str:
    """The meanings of the marks of tokens, as a list in HTML. left_out: kinds that the list leaves out."""
    items = "".join(_entry(kind) for kind in _ORDER if kind not in left_out)
    return f'<ul class="legend" aria-label="What the marks mean">{items}</ul>'


def _entry(kind: str) -> str:
    tag = "s" if kind == "rejected" else "span"
    meaning = KINDS.get(kind) or STATUSES[kind]
    word = f'<{tag} class="token {kind}" data-term="{kind}" tabindex="0">{kind}</{tag}>'
    return f"<li>{word} {meaning.sentence}</li>"


_BLOCK = (
    "A block is one call of the large model. Its width is the call's time, its ticks are the tokens. In the "
    "amber part the small model guesses."
)
_KEY = (
    '<ul class="legend key" aria-label="What the bars show"><li><i class="call"></i>large model</li>'
    '<li><i class="guess"></i>small model</li><li><i class="tick"></i>a token</li></ul>'
)
_PLAIN = frame.term("plain")
_TEMPLATE = f"""
<section aria-labelledby="text-title">
  <p class="lane plain"><span class="name">{_PLAIN}</span><span class="track"></span>
    <span class="count"></span></p>
  <p class="lane with"><span class="name">with guesses</span><span class="track" title="{_BLOCK}"></span>
    <span class="count"></span></p>
  <p class="account"><span class="passed"></span> <a class="sum" href="?lesson=faster"
      title="In brackets: the 95% interval over repeated measurements"></a>
    <span class="equal" hidden></span></p>
  <header>
    <h2 id="text-title">Text</h2>
    {legend()}
    {_KEY}
    <label class="switch"><input type="checkbox" class="show-rejected" checked> rejected tokens</label>
  </header>
  <p class="hint">Choose a recorded run, or write a prompt and press <b>Generate</b>: the text grows here.</p>
  <div class="texts">
    <div class="story" role="region" tabindex="0" aria-label="Generated text; click a token to see its round"
      hidden><span class="prompt"></span><span class="tokens"></span></div>
    <div class="plain-side" aria-hidden="true"><p>plain decoding</p>
      <div class="plain-text" tabindex="-1"></div></div>
  </div>
</section>
"""


def panel() -> frame.Part:
    """The text panel. `assets/decode/text.js` fills it and only ever appends."""
    return frame.panel("text", _TEMPLATE)


if __name__ == "__main__":
    alone(panel)
