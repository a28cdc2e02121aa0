"""The text with every token's origin: accepted, rejected and replaced, bonus, residual, correction."""

from __future__ import annotations

import gradio as gr

from components.page import frame
from components.page.catalogue import KINDS, STATUSES
from components.server.standalone import alone

_ORDER = ("accepted", "rejected", "correction", "residual", "bonus", "sampled")


def legend(*left_out: str) -> str:
    """What the marks of tokens mean, as a list in HTML, without the kinds that are left out."""
    items = "".join(_entry(kind) for kind in _ORDER if kind not in left_out)
    return f'<ul class="legend" aria-label="What the marks mean">{items}</ul>'


def _entry(kind: str) -> str:
    tag = "s" if kind == "rejected" else "span"
    meaning = KINDS.get(kind) or STATUSES[kind]
    word = f'<{tag} class="token {kind}" data-term="{kind}" tabindex="0">{kind}</{tag}>'
    return f"<li>{word} {meaning.sentence}</li>"


_BASELINE = frame.term("baseline", "autoregressive")
_TEMPLATE = f"""
<section aria-labelledby="text-title">
  <header>
    <h2 id="text-title">Text</h2>
    {legend()}
    <label class="switch"><input type="checkbox" class="show-rejected" checked> rejected tokens</label>
  </header>
  <p class="hint">A small draft model proposes tokens, the target model checks them all in one go, and the
    text grows here. Choose a recorded run, or write a prompt and press <b>Generate</b>.</p>
  <div class="lanes">
    <div class="story" role="region" tabindex="0" aria-label="Generated text; click a token to see its round"
      hidden><span class="prompt"></span><span class="tokens"></span></div>
    <aside class="race-of-two" aria-label="This run and autoregressive decoding on one clock" hidden>
      <p class="lane"><span class="name"></span><span class="track"><i class="this-run"></i></span>
        <span class="count"></span></p>
      <p class="lane"><span class="name">{_BASELINE}</span><span class="track"><i></i></span>
        <span class="count"></span></p>
      <div class="slower-text" aria-hidden="true"></div>
      <p class="clock"><span class="passed"></span> · <a class="ratio" href="?lesson=faster"></a></p>
    </aside>
  </div>
</section>
"""


def panel() -> gr.HTML:
    """The text panel; `assets/decode/text.js` appends to it and never rewrites what is there."""
    return frame.panel("text", _TEMPLATE)


if __name__ == "__main__":
    alone(panel)
