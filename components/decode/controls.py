"""The controls of a run: prompt, method, topology, sampling, seed, length, Generate and Stop."""

from __future__ import annotations

from functools import partial
from typing import Any

from gradio import Request
from markupsafe import Markup

from components.decode import models as models_panel
from components.decode import traces
from components.page import frame
from components.page.forms import Form, button
from components.page.settings import TABLE, declared
from components.runs import feed, run
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
    "One night, a little star",
    "The old boat was sad because",
]
"""Beginnings of stories for the model to continue."""
QUESTIONS = shipped.QUESTIONS.read_text(encoding="utf-8").splitlines()
"""Questions to ask a chat model."""
CODE = shipped.CODE_QUESTIONS.read_text(encoding="utf-8").splitlines()
"""Questions to ask a model that writes code."""
ANSWER = 128
"""The length that the form of a chat model opens with, in tokens. A recorded answer may be shorter."""
_STORY_WORDS = ("Lily", "A red ball", "A hungry dog", "A shiny key", "A little star", "An old boat")
_WORDS = ("A good friend", "Dreams", "Honesty", "Confidence", "A brave mouse", "Books")
_CODE_WORDS = ("Prime numbers", "Fibonacci", "Word counts", "Binary search", "A stack", "SQL")

_METHODS_INFO = " ".join(f"{METHODS[name].name}: {METHODS[name].sentence}" for name in ("ersd", "gsd"))
_FIRST = ("topology", "k", "max_new_tokens")
_LAST = ("baseline", "seed", "temperature", "top_p", "top_k")
_ELSEWHERE = ("prompt", "method", "chat", "history", "tree")
"""The order of the fields in the drawer of settings: `_FIRST` at the top, `_LAST` at the bottom. The fields
of `_ELSEWHERE` are outside of the drawer."""

_form = Form(PART, ids="")


def panel(pair: Pair) -> frame.Part:
    """The controls, the text about the run, and the endpoint that decodes.

    `assets/decode/controls.js` runs the controls.
    """
    pair = shared(pair)
    opening = traces.opening(pair.chats)
    words = Markup('Ask <span class="family">the model</span>:')
    chips = [
        ("stories", "Begin with:", zip(STORIES, _STORY_WORDS, strict=True)),
        ("questions", words, zip(QUESTIONS, _WORDS, strict=True)),
        ("programs", words, zip(CODE, _CODE_WORDS, strict=True)),
    ]
    return frame.joined(
        frame.box(
            "controls",
            _form.text(
                "prompt",
                opening["prompt"],
                "Prompt",
                placeholder="Ask a question" if pair.chats else "Begin a story",
                lines=4,
            ),
            _input("method", info=_METHODS_INFO),
            button("generate", "Generate", "primary"),
            button("stop", "Stop", disabled=True),
        ),
        frame.panel("drawer", frame.template("decode/drawer")),
        frame.panel("prompts", frame.template("decode/prompts", chips=chips), chats=pair.chats),
        frame.box("settings", _fields(opening), models_panel.settings(pair)),
        _form.hidden("tree", "", "tree", id="measured-tree"),
        _form.hidden("history", "", "conversation"),
        _feed(pair),
    )


def _fields(opening: dict[str, Any]) -> frame.Part:
    """The fields of all settings except those in `_ELSEWHERE`.

    Settings that are neither in `_FIRST` nor in `_LAST` are in the middle.
    """
    values = {name: opening[name] for name in ("max_new_tokens", "seed", "temperature")}
    values["k"] = len(opening["paths"])
    if opening["chat"]:
        values["max_new_tokens"] = ANSWER
    middle = [name for name in TABLE if name not in (*_FIRST, *_LAST, *_ELSEWHERE)]
    return frame.joined(*(_input(name, values.get(name)) for name in (*_FIRST, *middle, *_LAST)))


def _input(name: str, value: Any = None, **look: Any) -> frame.Part:
    """The form field of the setting with this name, made from its row in `TABLE`. value: what the field shows
    first."""
    row, setting = TABLE[name], TABLE[name].setting
    # JavaScript does not represent larger whole numbers exactly
    least, most = setting.least, None if row.most is None else min(row.most, MOST_WHOLE)
    looks: dict[str, dict[str, Any]] = {
        "slider": {"least": least, "most": most, "shown": row.shown, "step": row.step or 1},
        "number": {"least": least, "most": most, "whole": setting.kind == "whole"},
        "radio": {"choices": row.menu},
        "menu": {"choices": row.menu},
    }
    value = row.first if value is None else value
    if row.form == "slider":
        assert least is not None, "a slider has two ends"
        assert most is not None, "a slider has two ends"
        value = min(max(value, least), most)
    if name == "seed":
        look["after"] = button("dice", "New seed")
    look = {"info": setting.help} | looks.get(row.form, {}) | look
    return getattr(_form, row.form)(setting.address, value, setting.label, **look)


def _feed(pair: Pair) -> frame.Part:
    """The panel that shows the state of the run in words, or its error, with the endpoint that decodes."""
    return frame.panel(
        "feed",
        frame.template("decode/feed"),
        streams={"decode": declared(partial(run.updates, pair), Request, feed.DESCRIPTION)},
    )
