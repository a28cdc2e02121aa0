"""The text with every token's origin: accepted, rejected and replaced, bonus, residual, correction."""

from __future__ import annotations

import gradio as gr

from components import page

_TEMPLATE = """
<section aria-labelledby="text-title">
  <header>
    <h2 id="text-title">Text</h2>
    <label class="switch"><input type="checkbox" class="show-rejected" checked> show rejected tokens</label>
  </header>
  <ul class="legend" aria-label="What the marks mean">
    <li><span class="token accepted">accepted</span> drafted, and kept by the target</li>
    <li><s class="token rejected">rejected</s> drafted, and replaced</li>
    <li><span class="token correction">correction</span> ERSD: the target's winner, not drafted</li>
    <li><span class="token residual">residual</span> GSD: sampled after a rejection</li>
    <li><span class="token bonus">bonus</span> one more after a whole accepted path</li>
    <li><span class="token sampled">sampled</span> plain autoregressive decoding</li>
  </ul>
  <p class="hint">A small draft model proposes tokens, the target model checks them all in one go, and the
    text grows here. Choose a recorded run, or write a prompt and press <b>Generate</b>.</p>
  <div class="story" role="region" tabindex="0" aria-label="Generated text; click a token to see its round"
    hidden><span class="prompt"></span><span class="tokens"></span></div>
</section>
"""


def panel() -> gr.HTML:
    """The text panel; `assets/js/text.js` appends to it and never rewrites what is there."""
    return page.panel("text", _TEMPLATE)


if __name__ == "__main__":
    page.alone(panel)
