"""Channel simulation and Tunstall codes on the page: Alice sends Bob a sentence, and its bits are counted.

The sentences are recorded (`record_sentences`), so no model is needed. The panel calls the server functions
`sent`, `distributions` and `tunstall`. Their answers are plain data from `specdec.channel`, which
`assets/codecs/panel.js` draws.
"""

from __future__ import annotations

from components.codecs.catalogue import NAMES, RELATIVES
from components.codecs.distributions import distributions
from components.codecs.sentence import recorded, sent
from components.codecs.tunstall import tunstall
from components.page import assets, frame
from specdec import channel

PRESETS = [
    ["The cat sat on the …", ["floor", "mat", "chair", "table", "sofa"],
     [0.25, 0.4, 0.1, 0.1, 0.15], [0.3, 0.25, 0.15, 0.2, 0.1]],
    ["far apart: D_KL 6.5 bits", ["a", "b"], [0.01, 0.99], [0.99, 0.01]],
    ["equal", ["a", "b", "c", "d"], [0.4, 0.3, 0.2, 0.1], [0.4, 0.3, 0.2, 0.1]],
    ["one of eight", list("abcdefgh"), [1, 0, 0, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1, 1, 1]],
]  # fmt: skip
"""Example distributions: name, tokens, P and Q. The first one has the tokens of the paper's Figure 2, but not
its probabilities."""


def panel() -> frame.Part:
    """The laboratory. It needs no model and fetches its first view when it becomes visible."""
    sentences = [[s["method"], s["prompt"]] for s in recorded()["sentences"]]
    return frame.panel(
        "codec_lab",
        frame.template("codecs/panel"),
        functions=[sent, distributions, tunstall],
        plotly=assets.file_url(assets.PLOTLY),
        sentences=sentences,
        codecs=[[method, f"{NAMES[method]} (related to {RELATIVES[method]})"] for method in channel.METHODS],
        presets=PRESETS,
    )
