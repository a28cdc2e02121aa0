"""The losslessness check: thousands of short decodes of a small model, compared live with its exact
distribution.

The real decoder runs on the server, on a small model of its own, so a check never waits for the page's
model. A switch breaks the verifier on purpose. `assets/losslessness/panel.js` draws the updates of `run`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gradio import Request

from components.losslessness import models
from components.losslessness import run as lossless_run
from components.losslessness.record_checks import RECORDED, SHOWN
from components.losslessness.run import ALARM, FEWEST, MOST, MOST_K, MOST_TOKENS, CheckSettings
from components.page import frame
from components.page.assets import ASSETS
from components.page.catalogue import method_menu, topology_menu
from components.page.forms import Form, button
from components.visitors import addresses
from specdec.exactness.faults import FAULTS
from specdec.figures.topologies import FIXED

PART = "lossless"
"""The name of the form in the page's address."""
_SIBLINGS = " This mistake needs siblings, so on a sequence nothing changes."
_SHOWN: dict[str, int] = json.loads(SHOWN.read_bytes())
_SHOWS = "With the default settings, half of all checks find this mistake within {:,} decodes."
_NOTHING_TO_BREAK = "Autoregressive decoding drafts nothing, so there is no verifier to break."
_BREAK = "This adds a mistake to the verifier, which the check may find."

FAULTS_IN_WORDS: dict[str, dict[str, str]] = json.loads(Path(__file__).with_name("faults.json").read_bytes())
"""For each fault of `specdec.exactness.faults`: its title, and a text about what is wrong."""
_BOARD = ("audit", "repeats")
_MARKS = {"no difference found": "✓", "wrong": "✗", "in doubt": "?"}

_FAULT = "kept-target"
_DEFAULT = CheckSettings(fault=_FAULT)


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
        yield from lossless_run.updates(settings, address=addresses.of(request))

    audits, repeats = (json.loads((ASSETS / "results" / f"{name}.json").read_bytes()) for name in _BOARD)
    template = frame.template(
        "losslessness/panel",
        alarm=ALARM,
        audits=audits,
        repeats=repeats,
        faults=FAULTS_IN_WORDS,
        marks=_MARKS,
    )
    return frame.box(
        "lossless-page",
        frame.box("lossless-controls", _controls(), below),
        frame.panel(PART, template, streams={"check_losslessness": check_losslessness}, **_choices()),
    )


def _controls() -> frame.Part:
    form, run = Form(PART), button("lossless-run", "Run the check", "primary")
    faults = [(each["title"], name) for name, each in FAULTS_IN_WORDS.items()]
    drafts = [(label, name) for name, (label, _) in models.DRAFTS.items()]
    trees = topology_menu(*FIXED)
    return frame.joined(
        form.flag("broken", False, "Break the verifier on purpose", info=_BREAK),
        form.radio("fault", _FAULT, "The mistake", faults, info=" ", shown=False),
        f'<div id="lossless-buttons">{run}{button("lossless-stop", "Stop", disabled=True)}</div>',
        form.radio("method", _DEFAULT.method, "Method", method_menu()),
        form.menu("draft", _DEFAULT.draft, "Draft", drafts),
        form.slider("decodes", _DEFAULT.decodes, "Decodes", least=FEWEST, most=MOST, step=100),
        form.slider("tokens", _DEFAULT.tokens, "Tokens of a decode", least=1, most=MOST_TOKENS),
        form.number("seed", _DEFAULT.seed, "Seed of the check", least=0, whole=True),
        form.menu("topology", _DEFAULT.topology, "Topology of the draft", trees),
        form.slider("k", _DEFAULT.k, "k: drafted tokens", least=1, most=MOST_K),
    )


def _choices() -> dict[str, Any]:
    """The data that the view needs before a visitor's first check: descriptions of the drafts and of the
    faults that can be built in, and a recorded check."""
    return {
        "tokens": list(models.TOKENS),
        "alarm": ALARM,
        "drafts": {name: label for name, (label, _) in models.DRAFTS.items()},
        "faults": {name: _texts_of(name) for name in FAULTS_IN_WORDS},
        "words": {"breaks": _BREAK, "nothing": _NOTHING_TO_BREAK},
        "recorded": json.loads(RECORDED.read_bytes()),
    }


def _texts_of(fault: str) -> dict[str, Any]:
    """The texts about a fault: its title, its description, the method that it breaks, and a sentence that
    follows the description if the tree is a sequence."""
    return {
        "title": FAULTS_IN_WORDS[fault]["title"],
        "method": FAULTS[fault].method,
        "words": f"{FAULTS_IN_WORDS[fault]['words']} {_SHOWS.format(_SHOWN[fault])}",
        "sequence": _SIBLINGS if FAULTS[fault].siblings else "",
    }
