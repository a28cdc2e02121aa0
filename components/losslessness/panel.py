"""The losslessness check: thousands of short decodes of a small model, compared live with its exact
distribution.

The real decoder runs on the server and needs no turn of the page's model. A switch breaks the verifier on
purpose. `assets/losslessness/panel.js` draws the updates of `run`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import gradio as gr

from components.losslessness import models
from components.losslessness import run as lossless_run
from components.losslessness.board import board
from components.losslessness.faults import FAULT_WORDS
from components.losslessness.record_checks import RECORDED, SHOWN
from components.losslessness.run import ALARM, FEWEST, MOST, MOST_K, MOST_TOKENS, CheckSettings
from components.page import frame
from components.page.catalogue import method_menu, topology_menu
from components.server import feed, seats
from specdec.exactness.faults import FAULTS
from specdec.figures.topologies import FIXED

_SIBLINGS = " It needs siblings: on a sequence nothing changes."
_SHOWN: dict[str, int] = json.loads(SHOWN.read_text())
_SHOWS = "With the settings of the start it is caught as often as not after {:,} decodes."
_NOTHING_TO_BREAK = "Autoregressive decoding drafts nothing, so there is no verifier to break."
_BREAK = "Adds a mistake for the check to find."

_FAULT = "kept-target"
_DEFAULT = CheckSettings(fault=_FAULT)

_TEMPLATE = f"""
<div class="lab lossless">
  <section class="card result" aria-labelledby="lossless-title">
    <h2 class="visually-hidden" id="lossless-title">Does the decoder keep the target's distribution?</h2>
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
    <p class="note inspected" data-hint="Point at a bar, or tap it: its numbers.">&nbsp;</p>
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
    <header><h2 id="lossless-path-title">The p-value on its way</h2></header>
    <div class="path-area"><svg class="path" role="img" aria-label="p-value against decodes"></svg></div>
    <p class="note">Of {round(1 / ALARM):,} checks of a right decoder, one ends below the alarm level by
      chance. That holds for the p-value at the number of decodes chosen before. Stopping early inflates false
      alarms, so the verdict waits for the end.</p>
  </section>

  <section class="card how-it-works" aria-labelledby="lossless-how-title">
    <header><h2 id="lossless-how-title">What is checked</h2></header>
    <p>A tiny target model writes tomorrow's weather from today's, so the {frame.term("distribution")} of what
      follows is known exactly. The real decoder writes thousands of short texts, each with a seed of its
      own, made from that of the check. Their shares may differ from the probabilities by chance
      only; χ² sums up how far they are apart, and p is the probability of a deviation this large if the
      decoder is right.</p>
  </section>

  <section class="card history-card" aria-labelledby="lossless-history-title" hidden>
    <header><h2 id="lossless-history-title">Your checks so far</h2>
      <button type="button" class="clear">Clear</button></header>
    <p>Method, tree and draft change the tokens per target call; the distribution must stay.</p>
    <div class="scroll history" tabindex="0" role="region" aria-labelledby="lossless-history-title"></div>
  </section>

  <details class="card models"><summary>The two models</summary>
    <p>Today the sun shines. Each row gives the probabilities of tomorrow's weather.</p>
    <div class="columns"><div class="scroll target"></div><div class="scroll draft"></div></div>
  </details>
{board()}
</div>
"""


def panel(below: str = "") -> dict[str, Any]:
    """The controls and the view. Returns the controls by their names in the page's address.

    below: trusted HTML that links to the section after the check.
    """
    with gr.Row(elem_id="lossless-page"):
        with gr.Column(scale=1, min_width=300, elem_id="lossless-controls"):
            inputs = _method() | _fault()
            with gr.Row(elem_id="lossless-buttons"):
                start = gr.Button("Run the check", variant="primary", elem_id="lossless-run", min_width=110)
                stop = gr.Button(
                    "Stop", variant="stop", interactive=False, elem_id="lossless-stop", min_width=80
                )
            inputs |= _size() | _tree()
            if below:
                gr.HTML(below, apply_default_css=False)
        with gr.Column(scale=3, min_width=320):
            view = frame.panel("lossless", _TEMPLATE, server_functions=[feed.missing, feed.stop], **_known())
    _follow(inputs)
    _connect(inputs, start, stop, view)
    return inputs


def _method() -> dict[str, Any]:
    drafts = [(draft.label, name) for name, draft in models.DRAFTS.items()]
    return {
        "method": gr.Radio(method_menu(), value=_DEFAULT.method, label="Method", elem_id="lossless-method"),
        "draft": gr.Dropdown(drafts, value=_DEFAULT.draft, label="Draft"),
    }


def _fault() -> dict[str, Any]:
    broken = gr.Checkbox(False, label="Break the verifier on purpose", info=_BREAK)
    choices = [(title, name) for name, (title, _) in FAULT_WORDS.items()]
    fault = gr.Radio(
        choices,
        value=_FAULT,
        label="What is done wrong",
        info=_explained(_FAULT),
        visible=False,
        elem_id="lossless-fault",
    )
    return {"broken": broken, "fault": fault}


def _size() -> dict[str, Any]:
    return {
        "decodes": gr.Slider(FEWEST, MOST, _DEFAULT.decodes, step=100, label="Decodes"),
        "tokens": gr.Slider(1, MOST_TOKENS, _DEFAULT.tokens, step=1, label="Tokens of a decode"),
        "seed": gr.Number(
            _DEFAULT.seed, label="Seed of the check", precision=0, minimum=0, elem_id="lossless-seed"
        ),
    }


def _tree() -> dict[str, Any]:
    return {
        "topology": gr.Dropdown(
            topology_menu(*FIXED),
            value=_DEFAULT.topology,
            label="Topology of the draft",
            elem_id="lossless-topology",
        ),
        "k": gr.Slider(1, MOST_K, _DEFAULT.k, step=1, label="k: drafted tokens", elem_id="lossless-k"),
    }


def _known() -> dict[str, Any]:
    """The data that the view has before the visitor's first check: descriptions and a recorded check."""
    return {
        "tokens": list(models.TOKENS),
        "alarm": ALARM,
        "drafts": {name: draft.label for name, draft in models.DRAFTS.items()},
        "faults": {name: title for name, (title, _) in FAULT_WORDS.items()},
        "recorded": json.loads(RECORDED.read_text()),
    }


def needed(method: str, topology: str, broken: bool, fault: str | None) -> tuple[Any, ...]:
    """Show the controls that these choices need: updates of the switch, the faults, the topology and k."""
    own = [name for name, entry in FAULTS.items() if entry.method == method]
    keeps = fault in own  # then its value is not sent: a late update would undo the visitor's next choice
    fault = fault if keeps else next(iter(own), None)
    breakable, acts = bool(own), FAULTS[fault].siblings if fault else False
    words = _explained(fault) + (_SIBLINGS if acts and topology == "sequence" else "") if fault else ""
    return (
        gr.update(interactive=breakable, info=_BREAK if breakable else _NOTHING_TO_BREAK),
        gr.update(
            choices=[(FAULT_WORDS[name][0], name) for name in own],
            info=words,
            visible=broken and breakable,
            **({} if keeps else {"value": fault}),
        ),
        gr.update(interactive=method != "ar"),
        gr.update(interactive=method != "ar"),
    )


def _explained(fault: str) -> str:
    return f"{FAULT_WORDS[fault][1]} {_SHOWS.format(_SHOWN[fault])}"


def _follow(inputs: dict[str, Any]) -> None:
    asked = [inputs[name] for name in ("method", "topology", "broken", "fault")]
    gr.on(
        [component.change for component in asked],
        needed,
        asked,
        [inputs[name] for name in ("broken", "fault", "topology", "k")],
        preprocess=False,
        show_progress="hidden",
        trigger_mode="always_last",
        api_visibility="private",
    )


def _connect(inputs: dict[str, Any], start: gr.Button, stop: gr.Button, view: gr.HTML) -> None:
    def check(request: gr.Request, *values: Any) -> Iterator[str]:
        *chosen, name = values
        settings = CheckSettings(**dict(zip(inputs, chosen, strict=True)))
        yield from lossless_run.updates(settings, visitor=seats.visitor(request), name=name)

    frame.streamed(view, start, stop, check, list(inputs.values()), "lossless")
