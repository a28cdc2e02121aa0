"""The losslessness check: thousands of short decodes of a small model, compared live with its exact
distribution.

The real decoder runs on the server and needs no turn of the page's model. A switch breaks the verifier on
purpose. `assets/losslessness/panel.js` draws the updates of `run`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from gradio import Request

from components.losslessness import models
from components.losslessness import run as lossless_run
from components.losslessness.board import board
from components.losslessness.faults import FAULT_WORDS
from components.losslessness.record_checks import RECORDED, SHOWN
from components.losslessness.run import ALARM, FEWEST, MOST, MOST_K, MOST_TOKENS, CheckSettings
from components.page import frame
from components.page.catalogue import method_menu, topology_menu
from components.page.forms import Form, button
from components.runs import seats
from specdec.exactness.faults import FAULTS
from specdec.figures.topologies import FIXED

PART = "lossless"
"""The name of the form in the page's address."""
_SIBLINGS = " This mistake needs siblings, so on a sequence nothing changes."
_SHOWN: dict[str, int] = json.loads(SHOWN.read_text())
_SHOWS = "With the settings that this tab opens with, half of all checks find it within {:,} decodes."
_NOTHING_TO_BREAK = "Autoregressive decoding drafts nothing, so there is no verifier to break."
_BREAK = "This adds a mistake to the verifier, which the check then finds."

_FAULT = "kept-target"
_DEFAULT = CheckSettings(fault=_FAULT)

_TEMPLATE = f"""
<div class="lab lossless">
  <section class="card result" aria-labelledby="lossless-title">
    <h2 id="lossless-title">Is the text really the same?</h2>
    <p class="verdict" role="status"></p>
    <p class="error-box lossless-error" role="alert" hidden></p>
    <dl class="tiles">
      <div><dt>decodes</dt><dd class="decodes">–</dd><dd class="note decodes-of"></dd></div>
      <div><dt>{frame.term("χ²")}</dt><dd class="statistic">–</dd><dd class="note freedom"></dd></div>
      <div><dt>{frame.term("p-value")}</dt>
        <dd class="p-value">–</dd><dd class="note">alarm below {ALARM:g}</dd></div>
      <div><dt>tokens per {frame.term("call", "target call")}</dt>
        <dd class="speed">–</dd><dd class="note calls"></dd></div>
    </dl>
  </section>

  <section class="card shares" data-slide="Shares" aria-labelledby="lossless-bars-title">
    <header><h2 id="lossless-bars-title">What was written, and what should have been</h2></header>
    <div class="bars-area"><svg class="bars" role="img"
      aria-label="Observed shares beside exact probabilities; a table follows"></svg></div>
    <p class="note inspected" data-hint="Point at a bar, or tap it, to see its numbers.">&nbsp;</p>
    <footer>
      <ul class="legend keys" aria-label="Marks">
        <li><i class="swatch within"></i>observed share</li>
        <li><i class="swatch beyond"></i>observed, beyond ± 2 standard errors</li>
        <li><i class="exact"></i>exact probability ± 2 standard errors</li>
      </ul>
      <p class="note spread"></p>
      <details class="outcome-table"><summary>As a table</summary>
        <div class="scroll" tabindex="0" role="region" aria-labelledby="lossless-bars-title"></div></details>
    </footer>
  </section>

  <section class="card way-there" data-slide="p-value" aria-labelledby="lossless-path-title">
    <header><h2 id="lossless-path-title">The p-value during the check</h2></header>
    <div class="path-area"><svg class="path" role="img" aria-label="p-value against decodes"></svg></div>
    <p class="note">Of {round(1 / ALARM):,} checks of a right decoder, one ends below the alarm level by
      chance. This holds for the p-value at the number of decodes that was chosen before. Stopping early
      inflates false
      alarms, so the verdict waits for the end.</p>
  </section>

  <section class="card how-it-works" aria-labelledby="lossless-how-title">
    <header><h2 id="lossless-how-title">What is checked</h2></header>
    <p>A tiny target model writes tomorrow's weather from today's, so the {frame.term("distribution")} of what
      follows is known exactly. The real decoder writes thousands of short texts, each with its own seed,
      which is made from the seed of the check. Their shares may differ from the probabilities by chance
      only; χ² sums up how far they are apart, and p is the probability of a deviation this large if the
      decoder is right.</p>
  </section>

  <section class="card history-card" aria-labelledby="lossless-history-title" hidden>
    <header><h2 id="lossless-history-title">Your checks so far</h2>
      <button type="button" class="clear">Clear</button></header>
    <p>Method, tree and draft change the tokens per target call, but must not change the distribution.</p>
    <div class="scroll history" tabindex="0" role="region" aria-labelledby="lossless-history-title"></div>
  </section>

  <details class="card models"><summary>The two models</summary>
    <p>Today the sun shines. Each row gives the probabilities of tomorrow's weather.</p>
    <div class="columns"><div class="scroll target"></div><div class="scroll draft"></div></div>
  </details>
{board()}
</div>
"""


_form = Form(PART)


def panel(below: str = "") -> frame.Part:
    """The controls and the view. below: trusted HTML that links to the section after the check."""

    def check_losslessness(
        request: Request,
        method: str = _DEFAULT.method,
        draft: str = _DEFAULT.draft,
        broken: bool = False,
        fault: str = _FAULT,
        decodes: int = _DEFAULT.decodes,
        tokens: int = _DEFAULT.tokens,
        seed: int = _DEFAULT.seed,
        topology: str = _DEFAULT.topology,
        k: int = _DEFAULT.k,
    ) -> Iterator[str]:
        """Decode many short texts with a tiny model and compare them with its exact distribution."""
        settings = CheckSettings(method, draft, topology, k, tokens, decodes, seed, broken, fault)
        yield from lossless_run.updates(settings, visitor=seats.visitor(request))

    buttons = button("lossless-run", "Run the check", "primary") + button(
        "lossless-stop", "Stop", disabled=True
    )
    return frame.box(
        "lossless-page",
        frame.box(
            "lossless-controls",
            _fault(),
            f'<div id="lossless-buttons">{buttons}</div>',
            _method(),
            _size(),
            _tree(),
            below,
        ),
        frame.panel(PART, _TEMPLATE, streams={"check_losslessness": check_losslessness}, **_known()),
    )


def _method() -> frame.Part:
    drafts = [(draft.label, name) for name, draft in models.DRAFTS.items()]
    return _form.radio("method", _DEFAULT.method, "Method", method_menu(), id="lossless-method") + _form.menu(
        "draft", _DEFAULT.draft, "Draft", drafts
    )


def _fault() -> frame.Part:
    choices = [(title, name) for name, (title, _) in FAULT_WORDS.items()]
    return _form.flag("broken", False, "Break the verifier on purpose", info=_BREAK) + _form.radio(
        "fault", _FAULT, "The mistake", choices, info=" ", id="lossless-fault", shown=False
    )


def _size() -> frame.Part:
    return frame.joined(
        _form.slider("decodes", _DEFAULT.decodes, "Decodes", least=FEWEST, most=MOST, step=100),
        _form.slider("tokens", _DEFAULT.tokens, "Tokens of a decode", least=1, most=MOST_TOKENS),
        _form.number("seed", _DEFAULT.seed, "Seed of the check", least=0, whole=True, id="lossless-seed"),
    )


def _tree() -> frame.Part:
    return _form.menu(
        "topology",
        _DEFAULT.topology,
        "Topology of the draft",
        topology_menu(*FIXED),
        id="lossless-topology",
    ) + _form.slider("k", _DEFAULT.k, "k: drafted tokens", least=1, most=MOST_K, id="lossless-k")


def _known() -> dict[str, Any]:
    """The data of the view before the visitor's first check: descriptions and a recorded check."""
    return {
        "tokens": list(models.TOKENS),
        "alarm": ALARM,
        "drafts": {name: draft.label for name, draft in models.DRAFTS.items()},
        "faults": {name: _described(name) for name in FAULT_WORDS},
        "words": {"breaks": _BREAK, "nothing": _NOTHING_TO_BREAK},
        "recorded": json.loads(RECORDED.read_text()),
    }


def _described(fault: str) -> dict[str, Any]:
    """A fault: its title, its description, the method that it breaks, and its description on a sequence."""
    title, words = FAULT_WORDS[fault]
    return {
        "title": title,
        "method": FAULTS[fault].method,
        "words": f"{words} {_SHOWS.format(_SHOWN[fault])}",
        "sequence": _SIBLINGS if FAULTS[fault].siblings else "",
    }
