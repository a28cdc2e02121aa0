"""The models that all visitors of this server share: their names, and the form that loads another pair.

Watching a load occupies nothing on the server: the browser asks `state` every few seconds without Gradio's
queue, and so does `cancel`. Events only start a load and update Gradio's components.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import gradio as gr
from gradio.context import Context

from components.page import frame
from components.page.questions import Question, answers
from components.server import known_pairs
from components.server.access import FIXED, OWN, Access
from components.server.lazy import LazyPair
from components.server.loading import Loading
from specdec import smollm2
from specdec.checks import among

_SHARED = (
    "Every visitor of this server uses the same pair. Loading another one changes it for all. Running "
    "generations keep their models."
)
_SHARED_FIXED = "Every visitor of this server uses this pair. The server's operator chose it."
_DTYPE_INFO = (
    "auto: as stored. In float32 ERSD's text equals autoregressive letter by letter. In bfloat16 rounding "
    "changed 22 of 40 texts of up to 140 tokens on the embedded pair with torch's operations, and none with "
    "the compiled forward."
)
_CHAT_INFO = "The prompt becomes a user's message, as these models were trained to answer it."
_KEY_INFO = "Printed where the server was started."
_CANCEL = "(key) => { window.specdec.models.cancel(key ?? ''); return []; }"
_TEMPLATE = """
<section aria-label="Models">
  <div class="loading" hidden><p class="stage"></p><progress></progress></div>
  <p class="outcome" role="status"></p>
  <p class="models-error" role="alert" hidden></p>
  <h3>In use</h3>
  <ul class="now"></ul>
  <p class="shared">{shared}</p>
</section>
"""

Fields = dict[str, Any]


def panel(pair: LazyPair, access: Access) -> Fields:
    """The panel, closed at first. Returns its components by their names in the page's address."""
    loading = Loading(pair)
    key, other = None, "stories" if pair.chats else "smollm2"
    with gr.Accordion(_label(loading.state()), open=False, elem_id="models-accordion") as accordion:
        chat = gr.Checkbox(
            True, label="Use the chat template", info=_CHAT_INFO, visible=pair.chats, elem_id="chat"
        )
        fields = _choice(access, accordion, other) if access.rule != FIXED else {}
        if fields and access.key is not None:
            key = gr.Textbox(label="Key", info=_KEY_INFO, type="password", elem_id="models-key")
        with gr.Row(visible=bool(fields)):
            load = gr.Button("Load", variant="primary", size="sm", elem_id="load-models", min_width=90)
            cancel = gr.Button("Cancel", size="sm", interactive=False, elem_id="cancel-load", min_width=90)
        frame.panel("models", _TEMPLATE.format(shared=_SHARED_FIXED if access.rule == FIXED else _SHARED))
    # scripts do not run inside a closed accordion
    watching = frame.panel("loads", "", server_functions=server_functions(loading, access))
    shown = [watching, accordion, chat, load, cancel]
    _connect(_Watch(pair, loading), access, fields, key, shown)
    return fields | {"chat": chat}  # no link may contain the key


class Cancel(Question):
    """A request to cancel: with the ticket of the current load, or with the key."""

    ticket: str = ""
    key: str = ""


def server_functions(loading: Loading, access: Access) -> list[Callable[..., Any]]:
    """The functions that the browser calls without the queue: `state` gives `Loading.state` of a load, and
    `cancel`."""

    async def state(_: Any = None) -> dict[str, Any]:
        return loading.state()

    @answers
    def cancel(asked: Cancel) -> dict[str, Any]:
        if not loading.begun_with(asked.ticket):
            if access.key is not None and not access.knows(asked.key):
                raise ValueError(
                    "only the visitor who began the load can cancel it, or a visitor with the key"
                )
            if access.rule == FIXED:
                raise ValueError("the operator of this server has fixed its models")
        loading.cancel()
        return loading.state()

    return [state, cancel]


def _choice(access: Access, accordion: gr.Accordion, first: str) -> Fields:
    own = [("Own models: hub ids or folders", OWN)] if access.rule == OWN else []
    listed = [(known.title, known.name) for known in known_pairs.PAIRS]
    pair = gr.Dropdown(listed + own, value=first, label="Pair to load", elem_id="pair")
    target = gr.Textbox(
        label="Target", placeholder="Qwen/Qwen3-8B, or a folder", visible=False, elem_id="target"
    )
    draft = gr.Textbox(
        label="Draft", placeholder="Qwen/Qwen3-0.6B, or a folder", visible=False, elem_id="draft"
    )
    with gr.Row():
        dtype = gr.Dropdown(
            ["auto", *known_pairs.DTYPES], value="auto", label="dtype", info=_DTYPE_INFO, elem_id="dtype"
        )
        devices = _devices()
        device = gr.Dropdown(
            devices, value="auto", label="Device", visible=len(devices) > 2, min_width=100, elem_id="device"
        )
    # Gradio's own check of a choice fails on a text that cannot be sent back.
    quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private", "preprocess": False}
    own_fields = [target, draft]
    pair.change(lambda name: [gr.update(visible=name == OWN)] * 2, pair, own_fields, **quiet)
    # only when the panel is opened: counting memory is slow, and the page does not wait for it
    gr.on([accordion.expand, pair.change, device.change], about, [pair, device], pair, **quiet)
    return {"pair": pair, "target": target, "draft": draft, "dtype": dtype, "device": device}


def _connect(watch: _Watch, access: Access, fields: Fields, key: gr.Textbox | None, shown: list[Any]) -> None:
    watching, accordion, _, load, cancel = shown
    quiet = {"show_progress": "hidden", "api_visibility": "private", "concurrency_limit": None}
    keys = [key] if key is not None else []

    def begin(*values: str) -> list[Any]:
        choice, given = values[: len(fields)], values[len(fields) :]
        try:
            access.check(given[0] if given else None)
            return watch.update(ticket=watch.loading.begin(access.choice(*choice)))
        except ValueError as error:
            return watch.update(refused=str(error))

    if fields:
        load.click(begin, [*fields.values(), *keys], shown, preprocess=False, **quiet)
        cancel.click(None, keys, None, js=_CANCEL, api_visibility="private")
    assert Context.root_block is not None, "fields are built inside Blocks"
    gr.on([Context.root_block.load, accordion.expand, watching.submit], watch.update, None, shown, **quiet)


class _Watch:
    """The view of a load in Gradio's components."""

    def __init__(self, pair: LazyPair, loading: Loading):
        self.pair, self.loading = pair, loading

    def update(self, **values: str) -> list[Any]:
        """Update the view with these further values, the accordion, the chat switch and the buttons."""
        state = self.loading.state() | values
        active = state["status"] in ("loading", "cancelling")
        return [
            json.dumps(state),
            gr.update(label=_label(state)),
            gr.update(visible=self.pair.chats),
            gr.update(interactive=not active),
            gr.update(interactive=state["status"] == "loading"),
        ]


def _label(state: dict[str, Any]) -> str:
    if state["status"] in ("loading", "cancelling"):
        return f"Models: loading {state['title']} …"
    names = [model["name"] for model in state["models"]]
    return f"Models: {' with '.join(names)}" if names else "Models"


def about(name: str, device: str) -> Any:
    """Show licence and memory of a pair and the free memory below its name.

    `gr.Error` names a pair or a device that does not exist.
    """
    try:
        among("pair", name, (*known_pairs.BY_NAME, OWN))
        among("device", device, _devices())
    except ValueError as error:
        raise gr.Error(str(error), print_exception=False) from None
    return gr.update(info=_facts(name, device))


def _facts(name: str, device: str) -> str:
    if name == OWN:
        return "The draft may have another tokenizer. Weights are read from safetensors only."
    known = known_pairs.BY_NAME[name]
    if known.target is None:
        return "Small models of stories for children, part of this project; no download."
    if known.draft is None:
        where_from = f"its weights come from {smollm2.INSTALL}, else from the hub"
        return f"{known.target.hub_id}, {known.target.licence}, with a draft of this project; {where_from}."
    from specdec.models import memory

    where = memory.place(device)
    needs = [
        f"{memory.gigabytes(known.memory(each, where == 'cpu'))} in {each}" for each in known_pairs.DTYPES[:2]
    ]
    gated = "; its licence has to be accepted on the hub first" if known.target.gated else ""
    return (
        f"{known.target.hub_id} with {known.draft.hub_id}, {known.target.licence}{gated}. "
        f"Download {memory.gigabytes(known.stored)}. Memory about {' or '.join(needs)}; "
        f"{memory.gigabytes(memory.free(where))} are free."
    )


def _devices() -> list[str]:
    import torch

    return ["auto", "cpu", *(f"cuda:{index}" for index in range(torch.cuda.device_count()))]
