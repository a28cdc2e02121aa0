"""The controls of a run: prompt, method, topology, sampling, seed, length, Generate and Stop."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

from gradio import Request

from components.decode import models as models_panel
from components.decode import traces
from components.guard import limits
from components.page import frame
from components.page.catalogue import method_menu, topology_menu
from components.page.forms import Form, button
from components.server import feed, run, topologies, turns
from components.server.access import Access
from components.server.lazy import LazyPair, shared
from components.server.settings import VisitorSettings
from specdec import Topology, shipped
from specdec.methods import METHODS
from specdec.pair import Pair

PART = "live"
"""The name of the form, whose fields have no prefix in the page's address."""

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
BASELINE_INFO = "The same prompt and seed without a small model, timed in turns with the run."
SEED_INFO = "Same seed, same text."

_NEW = (
    '<button type="button" class="new" title="Forget this conversation and begin a new one">New chat</button>'
)
_CHIP = '<button type="button" data-prompt="{0}" title="{0}">{1}</button>'
_SETTINGS = """
<label class="open-settings"><input type="checkbox" aria-controls="settings">Settings</label>
"""

PARAMETERS = {"length": "max_new_tokens", "top-k": "top_k", "top-p": "top_p"}
"""The parameters of the endpoint by the names of fields in the address, where they differ."""
MEASURED_FOR = ("method", "topology", "k", "temperature", "top-p", "top-k")
"""The fields that a measured tree depends on, besides the models."""
FOLLOWS = {"tree": list(MEASURED_FOR)}
"""The values of the address that a value was computed for, for `setup.panel`."""

_form = Form(PART)


def panel(pair: Pair, access: Access | None = None) -> frame.Part:
    """The controls and the words about the run, and the endpoint that decodes.

    access: the models that may be loaded; none if it is missing. `assets/decode/controls.js` runs them.
    """
    pair = shared(pair)
    opening = traces.opening(pair.chats)
    chips = _chips(STORIES, "stories") + _chips(QUESTIONS, "questions") + _NEW
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
            _form.radio("method", "ersd", "Method", method_menu(), info=_METHODS_INFO, id="method"),
            button("generate", "Generate", "primary"),
            button("stop", "Stop", disabled=True),
        ),
        frame.panel("drawer", _SETTINGS),
        frame.panel("prompts", f'<p class="chips">{chips}</p>', chats=pair.chats),
        frame.box(
            "settings", _decoding(opening), _sampling(opening), models_panel.panel(pair, access or Access())
        ),
        _form.hidden("tree", _first_tree(pair, opening), id="measured-tree"),
        _form.hidden("history", "", id="history"),
        _feed(pair),
    )


def _chips(prompts: list[str], kind: str) -> str:
    """Buttons, each of which runs a prompt."""
    buttons = (_CHIP.format(escape(text), escape(_LABELS.get(text, text))) for text in prompts)
    return f'<span class="{kind}">{"".join(buttons)}</span>'


def _decoding(opening: dict[str, Any]) -> frame.Part:
    most = limits.current()
    return frame.joined(
        _form.menu("topology", "optimal", "Topology of the draft", topology_menu(), id="topology"),
        _form.slider(
            "k",
            min(len(opening["paths"]), most.draft_tokens),
            "k: drafted tokens per round",
            least=1,
            most=most.draft_tokens,
            id="k",
        ),
        _form.slider(
            "length",
            min(opening["max_new_tokens"], most.new_tokens),
            "Length in tokens",
            least=1,
            most=most.new_tokens,
            id="length",
        ),
        _form.flag("baseline", True, "Measure plain decoding too", info=BASELINE_INFO, id="baseline"),
    )


def _sampling(opening: dict[str, Any]) -> frame.Part:
    dice = button("dice", "New seed")
    return frame.joined(
        _form.number(
            "seed", opening["seed"], "Seed", least=0, whole=True, after=dice, info=SEED_INFO, id="seed"
        ),
        _form.slider(
            "temperature",
            opening["temperature"],
            "Temperature",
            least=0,
            most=2,
            step=0.05,
            info="0 is greedy",
            id="temperature",
        ),
        _form.slider("top-p", 1.0, "Top-p", least=0.05, most=1, step=0.05, info="1 is off", id="top-p"),
        _form.number("top-k", 0, "Top-k", least=0, whole=True, info="0 is off", id="top-k"),
    )


def _first_tree(pair: LazyPair, opening: dict[str, Any]) -> str:
    """The tree that the hidden field opens with.

    The field holds the tree that was measured for these settings. It goes into the address, so that a link
    gives the same text under GSD, too. When a setting that the tree depends on changes, it is measured again.
    For a pair of ours, which is loaded later, it is the tree of the run that the page opens with.
    """
    return "" if pair.loaded else topologies.written(Topology(opening["paths"]))


_FEED = """
<p class="run-status" role="status"></p>
<p class="run-error" role="alert" hidden></p>
<p class="go-on" hidden><button type="button">Go on</button></p>
"""


def _feed(pair: Pair) -> frame.Part:
    """The state of the run in words, and any error."""

    # It is synchronous, so that a visitor who leaves ends it after a round and ZeroGPU can run it.
    def decode(
        request: Request,
        prompt: str,
        method: str = "ersd",
        topology: str = "sequence",
        k: int = 4,
        max_new_tokens: int = 64,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int = 0,
        baseline: bool = False,
        chat: bool = False,
        history: str = "",
        tree: str = "",
    ) -> Iterator[str]:
        sampled = (max_new_tokens, temperature, top_k, top_p, seed)
        settings = VisitorSettings(
            prompt, method, topology, k, *sampled, baseline=baseline, chat=chat, history=history, tree=tree
        )
        yield from run.updates(pair, settings, visitor=turns.visitor(request))

    decode.__doc__ = feed.DESCRIPTION
    return frame.panel(
        "feed",
        _FEED,
        streams={"decode": decode},
        parameters=PARAMETERS,
        measuredFor=list(MEASURED_FOR),
        withoutK=list(topologies.WITHOUT_K),
    )


if __name__ == "__main__":
    from functools import partial

    import specdec
    from components.server.standalone import serve

    serve(partial(panel, specdec.load_pair("stories")))
