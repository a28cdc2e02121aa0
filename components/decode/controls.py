"""The controls of a run: prompt, method, topology, sampling, seed, length, Generate and Stop."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

from gradio import Request

from components.decode import models as models_panel
from components.decode import traces
from components.page import frame
from components.page.forms import Form, button
from components.page.settings import TABLE, VisitorSettings, declared
from components.runs import feed, run, seats, topologies
from components.runs.lazy import shared
from specdec import shipped
from specdec.methods import METHODS
from specdec.pair import Pair
from specdec.trace import MOST_WHOLE

PART = "live"
"""The name of the form, whose fields have no prefix in the page's address."""

STORIES = [
    "Once upon a time, there was a little girl named Lily.",
    "Tom had a red ball. One day",
    "The hungry dog looked for",
    "A bird found a shiny key.",
]
"""Beginnings of stories for the model to continue."""
QUESTIONS = shipped.QUESTIONS.read_text().splitlines()
"""Questions to ask a chat model."""
CODE = shipped.CODE_QUESTIONS.read_text().splitlines()
"""Questions to ask a model that writes code."""
_WORDS = ("A good friend", "Dreams", "Honesty", "Confidence", "A brave mouse", "Books")
_CODE_WORDS = ("Prime numbers", "Fibonacci", "Word counts", "Binary search", "A stack", "SQL")
_LABELS = dict(zip(QUESTIONS + CODE, _WORDS + _CODE_WORDS, strict=True))

_METHODS_INFO = " ".join(f"{METHODS[name].name}: {METHODS[name].sentence}" for name in ("ersd", "gsd"))

_TURNS = """
<fieldset class="turns" hidden><legend class="visually-hidden">The next question</legend>
  <label title="The next question continues this conversation"
    ><input type="radio" name="turns" checked>Follow-up</label>
  <label title="The next question begins a new conversation"><input type="radio" name="turns">New chat</label>
</fieldset>
"""
_CHIP = '<button type="button" data-prompt="{0}" title="{0}">{1}</button>'
_SETTINGS = """
<label class="open-settings"><input type="checkbox" aria-controls="settings">Settings</label>
<label class="open-more" title="Method, settings, recorded runs, saving and statistics"
  ><input type="checkbox">More</label>
"""

MEASURED_FOR = [row.setting.address for row in TABLE.values() if row.shapes]
"""The fields that a measured tree depends on, in addition to the models."""
FOLLOWS = {"tree": MEASURED_FOR}
"""The fields of the address that each computed value depends on, for `setup.panel`."""

_form = Form(PART)


def panel(pair: Pair) -> frame.Part:
    """The controls, the text about the run, and the endpoint that decodes.

    `assets/decode/controls.js` runs the controls.
    """
    pair = shared(pair)
    opening = traces.opening(pair.chats)
    asked = 'Ask <span class="family">the model</span>:'
    chips = _chips("Begin with:", STORIES, "stories")
    chips += _chips(asked, QUESTIONS, "questions") + _chips(asked, CODE, "programs")
    return frame.joined(
        frame.box(
            "controls",
            _form.text(
                "prompt",
                opening["prompt"],
                "Prompt",
                placeholder="Ask a question" if pair.chats else "Begin a story",
                lines=4,
                id="prompt",
            ),
            _input("method", info=_METHODS_INFO),
            button("generate", "Generate", "primary"),
            button("stop", "Stop", disabled=True),
        ),
        frame.panel("drawer", _SETTINGS),
        frame.panel("prompts", f'{_TURNS}<p class="chips">{chips}</p>', chats=pair.chats),
        frame.box(
            "settings",
            _decoding(opening),
            _sampling(opening),
            models_panel.settings(pair),
        ),
        _form.hidden("tree", "", id="measured-tree"),
        _form.hidden("history", "", id="history"),
        _feed(pair),
    )


def _chips(label: str, prompts: list[str], kind: str) -> str:
    """A label in HTML, and buttons that each run one prompt."""
    buttons = (_CHIP.format(escape(text), escape(_LABELS.get(text, text))) for text in prompts)
    return f'<span class="{kind}"><span class="asked">{label}</span>{"".join(buttons)}</span>'


def _decoding(opening: dict[str, Any]) -> frame.Part:
    """The fields for topology, k, length and plain decoding, and for all settings that are not in
    `_PLACED`."""
    drafted = {"k": len(opening["paths"]), "max_new_tokens": opening["max_new_tokens"]}
    named = [*("topology", "k", "max_new_tokens"), *(name for name in TABLE if name not in _PLACED)]
    return frame.joined(*(_input(name, drafted.get(name)) for name in named), _input("baseline"))


def _sampling(opening: dict[str, Any]) -> frame.Part:
    return frame.joined(
        _input("seed", opening["seed"], after=button("dice", "New seed")),
        _input("temperature", opening["temperature"]),
        _input("top_p"),
        _input("top_k"),
    )


_PLACED = {
    *("prompt", "method", "topology", "k", "max_new_tokens", "baseline", "chat", "history", "tree"),
    *("seed", "temperature", "top_p", "top_k"),
}
"""The settings that have a place of their own in the form."""


def _input(name: str, value: Any = None, **look: Any) -> frame.Part:
    """The field of the setting with this name, as its row describes it. value: the field's first value."""
    row, setting = TABLE[name], TABLE[name].setting
    address, label, least = setting.address, setting.label, setting.least
    # a script can't hold larger numbers exactly
    most = None if row.most is None else min(row.most, MOST_WHOLE)
    value = row.first if value is None else value
    look = {"info": setting.help, "id": address} | look
    match row.form:
        case "slider":
            assert least is not None, "a slider has two ends"
            assert most is not None, "a slider has two ends"
            first = min(max(least if value is None else value, least), most)
            look |= {"shown": row.shown, "step": row.step or 1}
            return _form.slider(address, first, label, least=least, most=most, **look)
        case "number":
            whole = setting.kind == "whole"
            return _form.number(address, value, label, least=least, most=most, whole=whole, **look)
        case "checkbox":
            return _form.flag(address, value, label, **look)
        case "radio":
            return _form.radio(address, value, label, row.menu, **look)
        case "menu":
            return _form.menu(address, value, label, row.menu, **look)
    return _form.text(address, value, label, **look)


_FEED = """
<p class="run-status" role="status"></p>
<p class="run-error" role="alert" hidden></p>
<p class="go-on" hidden><button type="button">Go on</button></p>
"""


def _feed(pair: Pair) -> frame.Part:
    """The state of the run in words, and any error."""

    # The function is not `async`, so that a visitor who leaves ends it after a round and ZeroGPU can run it.
    def decode(request: Request, *values: Any) -> Iterator[str]:
        yield from run.updates(pair, VisitorSettings(*values), visitor=seats.visitor(request))

    return frame.panel(
        "feed",
        _FEED,
        streams={"decode": declared(decode, Request, feed.DESCRIPTION)},
        measuredFor=MEASURED_FOR,
        withoutK=list(topologies.WITHOUT_K),
    )


if __name__ == "__main__":
    import specdec
    from components.server.standalone import serve

    serve(panel(specdec.load_pair("stories")))
