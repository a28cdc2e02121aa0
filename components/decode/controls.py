"""The controls of a run: prompt, method, topology, sampling, seed, length, Generate and Stop."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

import gradio as gr

from components.decode import models as models_panel
from components.decode import traces
from components.page import frame
from components.page.settings import TABLE, VisitorSettings
from components.server import feed, run, seats, topologies
from components.server.access import Access
from components.server.lazy import LazyPair, shared
from specdec import Topology, shipped
from specdec.methods import METHODS
from specdec.pair import Pair

STORIES = [
    "Once upon a time, there was a little girl named Lily.",
    "Tom had a red ball. One day",
    "The hungry dog looked for",
    "A bird found a shiny key.",
]
"""Beginnings of stories to go on with."""
QUESTIONS = shipped.QUESTIONS.read_text().splitlines()
"""Questions to ask a chat model."""
_WORDS = ("A good friend", "Dreams", "Honesty", "Confidence", "A brave mouse", "Books")
_LABELS = dict(zip(QUESTIONS, _WORDS, strict=True))

_METHODS_INFO = " ".join(f"{METHODS[name].name}: {METHODS[name].sentence}" for name in ("ersd", "gsd"))
BASELINE_INFO = TABLE["baseline"].setting.help
SEED_INFO = TABLE["seed"].setting.help

_CONVERSATION = "(prompt, history) => window.specdec?.conversation(prompt, history) ?? history"
_NEW = (
    '<button type="button" class="new" title="Forget this conversation and begin a new one">New chat</button>'
)
_CHIP = '<button type="button" data-prompt="{0}" title="{0}">{1}</button>'
_SETTINGS = """
<label class="open-settings"><input type="checkbox" aria-controls="settings">Settings</label>
"""

Inputs = dict[str, Any]
"""The components by the field of `VisitorSettings` that they set, or by their name in the address."""


def build(pair: Pair, access: Access | None = None) -> Inputs:
    """Place the controls and connect them to the feed, which receives the run.

    access: the models that may be loaded; none if it is missing. Returns the controls by their names in the
    page's address.
    """
    pair = shared(pair)
    opening = traces.opening(pair.chats)
    with gr.Row(elem_id="controls"):
        prompt = gr.Textbox(
            opening["prompt"],
            label="Prompt",
            placeholder="Ask a question" if pair.chats else "Begin a story",
            lines=1,
            max_lines=4,
            elem_id="prompt",
        )
        method = _input("method", info=_METHODS_INFO)
        generate = gr.Button("Generate", variant="primary", elem_id="generate", min_width=100)
        stop = gr.Button("Stop", variant="stop", interactive=False, elem_id="stop", min_width=100)
    frame.panel("drawer", _SETTINGS)
    chips = _chips(STORIES, "stories") + _chips(QUESTIONS, "questions") + _NEW
    frame.panel("prompts", f'<p class="chips">{chips}</p>', chats=pair.chats)
    with gr.Column(elem_id="settings"):
        inputs = {"prompt": prompt, "method": method} | _decoding(opening) | _sampling(opening)
        _connect_needed(inputs)
        models = models_panel.panel(pair, access or Access())
    updates = feed.panel()
    inputs |= {"chat": models["chat"]} | _tree(pair, inputs, models, opening) | {"history": _history()}
    _connect(pair, inputs, generate, stop, updates)
    return models | {TABLE[name].setting.address: component for name, component in inputs.items()}


def _chips(prompts: list[str], kind: str) -> str:
    """Buttons, each of which runs a prompt."""
    buttons = (_CHIP.format(escape(text), escape(_LABELS.get(text, text))) for text in prompts)
    return f'<span class="{kind}">{"".join(buttons)}</span>'


def _decoding(opening: dict[str, Any]) -> Inputs:
    """The settings of drafting, of length and of plain decoding, and all that have no place of their own."""
    drafted = {"k": len(opening["paths"]), "max_new_tokens": opening["max_new_tokens"]}
    inputs = {name: _input(name, drafted.get(name)) for name in ("topology", "k", "max_new_tokens")}
    inputs |= {name: _input(name) for name in TABLE if name not in _PLACED}
    inputs["baseline"] = _input("baseline")
    return inputs


_PLACED = {
    *("prompt", "method", "topology", "k", "max_new_tokens", "baseline", "chat", "history", "tree"),
    *("seed", "temperature", "top_p", "top_k"),
}
"""The settings that have a place of their own in the form."""


def _input(name: str, value: Any = None, **changes: Any) -> Any:
    """The input of the setting with this name, as its row describes it. value: the first one."""
    row = TABLE[name].described()
    value = row["default"] if value is None else value
    shared: dict[str, Any] = {
        "label": row["label"],
        "info": row["help"] or None,
        "elem_id": row["address"],
    } | changes
    match row["form"]:
        case "slider":
            least, most = row["least"], row["most"]
            first = min(max(least if value is None else value, least), most)
            return gr.Slider(least, most, first, step=row["step"], **shared)
        case "number":
            digits = 0 if row["whole"] else None
            return gr.Number(value, precision=digits, minimum=row["least"], maximum=row["most"], **shared)
        case "checkbox":
            return gr.Checkbox(value, **shared)
        case "radio":
            return gr.Radio(row["choices"], value=value, **shared)
        case "menu":
            return gr.Dropdown(row["choices"], value=value, **shared)
    return gr.Textbox(value, **shared)


def _connect_needed(inputs: Inputs) -> None:
    method, topology = inputs["method"], inputs["topology"]
    gr.on(
        [topology.change, method.change],
        _needed,
        [method, topology],
        [topology, inputs["k"]],
        show_progress="hidden",
        api_visibility="private",
    )


def _needed(method: str, topology: str) -> tuple[Any, Any]:
    drafts = method != "ar"
    return gr.update(interactive=drafts), gr.update(
        interactive=drafts and topology not in topologies.WITHOUT_K
    )


def _sampling(opening: dict[str, Any]) -> Inputs:
    with gr.Row():
        seed = _input("seed", opening["seed"], min_width=120)
        dice = gr.Button("New seed", size="sm", min_width=90, elem_id="dice")
    inputs = {
        name: _input(name, opening[name] if name == "temperature" else None)
        for name in ("temperature", "top_p", "top_k")
    }
    dice.click(None, None, seed, js="() => Math.floor(Math.random() * 2 ** 31)", api_visibility="private")
    return inputs | {"seed": seed}


_MEASURED_FOR = tuple(name for name, row in TABLE.items() if row.shapes)
"""The settings that a measured tree depends on, besides the models."""


FOLLOWS = {"tree": [TABLE[name].setting.address for name in _MEASURED_FOR]}
"""The values of the address that a value was computed for, for `setup.panel`."""
_ASKED = f"{list(_MEASURED_FOR)}, values, {list(topologies.WITHOUT_K)}"
_CHOSEN = f"(tree, ...values) => window.specdec?.chosenTree(tree, {_ASKED}) ?? tree"


def _history() -> gr.Textbox:
    """The hidden field with the conversation before the prompt, as a JSON list. It goes into the address."""
    return gr.Textbox("", label="Conversation", visible="hidden", elem_id="history")


def _tree(pair: LazyPair, inputs: Inputs, models: Inputs, opening: dict[str, Any]) -> Inputs:
    """The hidden field with the tree that was measured for these settings. It goes into the address, so that
    a link gives the same text under GSD, too. When a setting that the tree depends on changes, it is measured
    again. For a pair of ours, which is loaded later, it is the tree of the run that the page opens with."""
    first = "" if pair.loaded else topologies.written(Topology(opening["paths"]))
    tree = gr.Textbox(first, label="Tree", visible="hidden", elem_id="measured-tree")
    touched = [inputs[name].input for name in _MEASURED_FOR] + [part.input for part in models.values()]
    quiet = {"show_progress": "hidden", "api_visibility": "private"}
    gr.on(touched, None, None, tree, js="() => ''", **quiet)
    return {"tree": tree}


def _connect(pair: Pair, inputs: Inputs, generate: gr.Button, stop: gr.Button, updates: gr.HTML) -> None:
    # The generator is synchronous, so that Stop takes effect after a round and ZeroGPU can run it.
    def decode(request: gr.Request, *values: Any) -> Iterator[str]:
        *chosen, name = values
        settings = VisitorSettings(**dict(zip(inputs, chosen, strict=True)))
        yield from run.updates(pair, settings, visitor=seats.visitor(request), name=name)

    # Only `decode` is an event of the server; everything else happens in the browser.
    private: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
    history = inputs["history"]
    generate.click(None, [inputs["prompt"], history], history, js=_CONVERSATION, **private)
    running = frame.streamed(updates, generate, stop, decode, list(inputs.values()), "run")
    # A disabled button ignores the click, so that Enter begins nothing while a run is going on.
    inputs["prompt"].submit(None, js="() => void document.getElementById('generate').click()", **private)
    chosen_for = [inputs[name] for name in ("tree", *_MEASURED_FOR)]
    running.then(None, chosen_for, inputs["tree"], js=_CHOSEN, **private)


if __name__ == "__main__":
    from functools import partial

    import specdec
    from components.server.standalone import serve

    serve(partial(build, specdec.load_pair("stories")))
