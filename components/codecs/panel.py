"""Channel simulation and Tunstall codes on the page: Alice sends Bob a sentence, and its bits are counted.

The sentences are recorded (`record_sentences`), so no model is needed. The panel asks the server for `sent`,
`distributions` and `tunstall`. Their answers are plain data from `specdec.channel`. `assets/codecs/panel.js`
draws them.
"""

from __future__ import annotations

from components.codecs.catalogue import NAMES, RELATIVES
from components.codecs.distributions import distributions
from components.codecs.record_sentences import RECORDED
from components.codecs.sentence import recorded, sent
from components.codecs.tunstall import tunstall
from components.page import assets, frame, paper
from specdec import channel

PRESETS = [
    ["The cat sat on the …", ["floor", "mat", "chair", "table", "sofa"],
     [0.25, 0.4, 0.1, 0.1, 0.15], [0.3, 0.25, 0.15, 0.2, 0.1]],
    ["far apart: D_KL 6.5 bits", ["a", "b"], [0.01, 0.99], [0.99, 0.01]],
    ["equal", ["a", "b", "c", "d"], [0.4, 0.3, 0.2, 0.1], [0.4, 0.3, 0.2, 0.1]],
    ["one of eight", list("abcdefgh"), [1, 0, 0, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1, 1, 1]],
]  # fmt: skip
"""Name, tokens, P, Q. The first row has the tokens of the paper's Figure 2, but not its probabilities."""

_TEMPLATE = f"""
<section aria-labelledby="codec-title">
  <h2 class="visually-hidden" id="codec-title">Codecs</h2>
  <p class="lead">Speculative decoding is related to channel simulation, a way to send random samples in few
  bits. Alice
    knows the target's {frame.term("distribution")} P of the next token. Bob knows only the draft's
    distribution Q. Both draw the same proposals from Q with shared randomness. Alice sends the
    <b>{frame.term("index")}</b> of a proposal that is a sample of P. The index tells Bob the token. The
    paper explains this in {paper.reference("Section 4, equations 6 to 8")}, and Tunstall codes in
    {paper.reference("Appendix C")}.</p>
  <p class="message error-box" role="alert" hidden></p>

  <div class="part" data-slide="A sentence from Alice to Bob">
    <h3>A sentence from Alice to Bob</h3>
    <div class="fields">
      <label>Codec <select class="codec"></select></label>
      <label>Sentence <select class="sentence"></select></label>
      <button type="button" class="reseed">New shared randomness</button>
      <button type="button" class="recorded" hidden>Recorded randomness</button>
    </div>
    <p class="note seed"></p>
    <p class="key">Under each token: the index that was sent, in bits of the {frame.term("Elias γ")} code.
      Choose a token to see its proposals.</p>
    <p class="received"></p>
    <div class="message-of-one" aria-live="polite"></div>
    <div class="two">
      <div>
        <p class="key">All values are in bits. H is an {frame.term("entropy")}; {frame.term("D_KL")} says how
        far P is from Q.</p>
        <div class="scroll wrap"></div>
        <details open><summary>Table of the tokens</summary><div class="scroll tokens-table"></div></details>
      </div>
      <div class="bits-plot"></div>
    </div>
  </div>

  <div class="part" data-slide="With and without replacement">
    <h3>With and without replacement</h3>
    <p class="key">P and Q are given as weights, which are scaled to sum to 1. Choose a token above to see its
      distributions here.</p>
    <div class="fields"><label>Distributions <select class="preset"></select></label></div>
    <div class="two">
      <div class="scroll distributions-table"></div>
      <div class="distributions-plot"></div>
    </div>
  </div>

  <div class="part" data-slide="Tunstall code">
    <h3>Tunstall code</h3>
    <p>A Tunstall code cuts the word into phrases of different lengths and writes each as a codeword of the
    same length. The phrases are the leaves of a tree whose inner nodes form the optimal draft tree.</p>
    <div class="fields">
      <label>Weights of a, b, … <input type="text" class="weights" value="0.7, 0.2, 0.1" size="18"></label>
      <label>k <input type="number" class="k" min="0" max="64" step="1" value="7"></label>
      <label class="wide">Word <input type="text" class="word" maxlength="400"
        value="aabacaaaabaaacabaaaaabaa" autocapitalize="off" spellcheck="false"></label>
    </div>
    <p class="message error-box word-message" role="alert" hidden></p>
    <p class="about-word"></p>
    <p class="phrases"></p>
    <div class="two">
      <div class="rate-plot"></div>
      <details open><summary>Codebook</summary><div class="scroll codebook"></div></details>
    </div>
  </div>
</section>
"""


def panel() -> frame.Part:
    """The laboratory. It needs no model and fetches its first view when it becomes visible."""
    sentences = [[s["method"], s["prompt"]] for s in recorded()["sentences"]] if RECORDED.is_file() else []
    return frame.panel(
        "codec_lab",
        _TEMPLATE,
        functions=[sent, distributions, tunstall],
        plotly=assets.file_url(assets.PLOTLY),
        sentences=sentences,
        codecs=[[method, f"{NAMES[method]} (related to {RELATIVES[method]})"] for method in channel.METHODS],
        presets=PRESETS,
    )
