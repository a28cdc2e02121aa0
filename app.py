"""The page: watch a pair of language models decode speculatively.

    python app.py                                             # SmolLM2-135M-Instruct, which chats
    python app.py --pair stories                              # the embedded pair of story models
    python app.py --target Qwen/Qwen3-8B --draft Qwen/Qwen3-0.6B --device cuda

This file only arranges the panels of `components` and starts the server.
"""

from __future__ import annotations

import gc
import os
import sys
from argparse import Namespace
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from typing import Any

if __name__ == "__main__":
    from components.server import ending

    ending.at_signals()  # before the imports below, which take seconds
    gc.disable()  # a collection during the imports takes a second and frees little
os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
# After each event Gradio sums up all earlier ones for a view that this page lacks, which takes 2 to 10 ms.
os.environ.setdefault("GRADIO_ANALYTICS_CACHE_FREQUENCY", str(10**9))
os.environ.setdefault("GRADIO_ANALYTICS_MAX_EVENTS", "100")
# A download over plain HTTP can be cancelled between two chunks. A download over Xet can't.
os.environ.setdefault("HF_HUB_DISABLE_XET", "1")
if os.environ.get("SPACES_ZERO_GPU"):
    import spaces  # noqa: F401 - before torch, because it changes which GPUs torch sees

import specdec
from components.be_draft import panel as be_draft
from components.classroom import panel as classroom
from components.compare import panel as compare
from components.decode import panel as decode
from components.experiments import panel as experiments
from components.experiments import views as results
from components.guard import hosts
from components.lessons import panel as lessons
from components.losslessness import panel as losslessness
from components.page import embed, frame, projector, serving, setup
from components.payoff import panel as payoff
from components.race_lab import panel as race_lab
from components.runs import capacity, lazy, queue, run, zero_gpu
from components.runs.lazy import LazyPair, shared
from components.server import access, memory, options, ports
from components.server.access import Access
from components.server.loading import Loading
from components.tree_lab import panel as tree_lab
from components.visitors import addresses, limits
from components.watermark import panel as watermark
from specdec import coder, smollm2
from specdec.pair import Pair
from specdec.shipped import CODER, SMOLLM2, STORIES

_INTRODUCTION = (
    '<header class="introduction"><a class="skip-link" href="#generate">Skip to the page</a>'
    "<h1>Speculative decoding</h1></header>\n"
)


def build(
    pair: Pair | None = None, allowed: Access | None = None, loading: Loading | None = None
) -> frame.Part:
    """The page for a pair of models, by default the embedded pair. allowed: which other pairs may be loaded.

    loading: the load of another pair, whose progress the page shows.
    """
    pair = shared(specdec.load_pair("stories") if pair is None else pair)
    places = {
        "Watch": [
            ("live", "Decode", decode.panel(pair)),
            ("compare", "Compare", compare.panel(pair)),
        ],
        "Guess": [("draft", "You draft", be_draft.panel(pair))],
        "Understand": [
            ("lessons", "Lessons", classroom.panel() + lessons.panel()),
            ("race", "Race lab", race_lab.panel()),
            ("trees", "Tree lab", tree_lab.panel()),
            ("losslessness", "Losslessness", losslessness.panel(watermark.LINK) + watermark.panel()),
        ],
        "Will it pay?": [("payoff", "Will it pay?", payoff.panel(pair, allowed, loading))],
        "Paper": [
            ("experiments", "Experiments", experiments.panel()),
            ("codecs", "Codecs", _codecs()),
            ("paper", "The paper", frame.Part(frame.template("page/paper"))),
        ],
    }
    content = frame.places(places)
    embed.open_route()
    return frame.joined(
        frame.box(
            "top",
            _INTRODUCTION,
            setup.panel(content, [view[0] for views in places.values() for view in views]),
            projector.panel(),
        ),
        lessons.bar(),
        classroom.bar(pair),
        content,
    )


def _codecs() -> frame.Part:
    """The codecs, or how to install the package that they need.

    `requirements.txt` leaves it out on Linux with an ARM processor, because pip has to compile it there.
    """
    if find_spec("constriction") is None:
        return frame.Part(
            "<p class='block note'>This view needs the package constriction, which was not installed. "
            "<code>pip install constriction</code> compiles it; for that you need Rust.</p>"
        )
    from components.codecs import panel

    return panel.panel()


def main(arguments: list[str] | None = None) -> None:
    """Serve the page for the pair that the command line names.

    The page opens before a pair of this project is loaded, and plays a recorded run meanwhile. Any other pair
    is loaded first, because its load may fail. Until the coder pair is loaded, a small pair answers visitors.
    """
    memory.share_arenas()
    ports.allow_connections()
    sys.setswitchinterval(queue.SWITCH_INTERVAL)
    try:
        settings = options.parse(arguments)
        name = _name(settings)
        pair = LazyPair(partial(_load, settings, name), will_chat=name == SMOLLM2 or settings.pair == CODER)
        loading = Loading(
            pair, partial(_load_next, pair), CODER if settings.pair == CODER else name or access.OWN
        )
        limits.use(limits.from_options(settings))
        addresses.trust(options.proxies(settings))
        hosts.use(options.names(settings))
        if settings.results:
            results.use(settings.results)
        ports.check(settings.host, settings.port)
        if name is None:
            pair.load()
        permissions = access.from_options(settings)
        server = serving.server(build(pair, permissions, loading))
        serving.launch(
            server,
            server_name=settings.host,
            server_port=settings.port,
            share=settings.share,
            prevent_thread_lock=True,
        )
        if address := ports.for_others(settings.host):
            print(
                f"Other machines in this network open http://{address}:{server.get_blocks().server_port}",
                flush=True,
            )
        if permissions.key and not settings.models_key:
            print(f"To load another pair on the page, enter the key {permissions.key}", flush=True)
        if name and settings.pair == CODER:
            loading.begin(Access().choice(CODER, "", "", settings.dtype, settings.device))
        capacity.measure(pair)
    except ValueError as error:
        sys.exit(f"error: {error}")
    memory.give_back()
    server.get_blocks().block_thread()


def _name(settings: Namespace) -> str | None:
    """The name of this project's pair that the page opens with. None for any other pair, and on ZeroGPU.

    Without an option the name is "smollm2", or "stories" if SmolLM2's weights are not available. With the
    option for the coder pair it is the small pair that answers until the coder pair is loaded. ValueError if
    the requested pair cannot be loaded.
    """
    if settings.target or settings.draft or zero_gpu.here():
        return None
    if settings.pair == CODER:
        if coder.installed() is None and not settings.download:
            raise ValueError(coder.MISSING)
        return SMOLLM2 if smollm2.installed() else STORIES
    if settings.pair != STORIES and smollm2.installed() is None:
        try:
            specdec.loading.check_smollm2_on_hub()
        except ValueError:
            if settings.pair:
                raise
            print(f"The small story pair opens. For a chat model: {smollm2.INSTALL}", flush=True)
            return STORIES
    return settings.pair or SMOLLM2


def _load(settings: Namespace, name: str | None) -> Pair:
    if zero_gpu.here():
        return zero_gpu.load(settings.target, settings.draft, settings.dtype, run.start)
    options = {"device": settings.device, "dtype": settings.dtype}
    try:
        return lazy.load(name or settings.target, settings.draft, **options)
    except ValueError as error:
        if name != SMOLLM2 or settings.pair == name:
            raise
        print(f"The small story pair opens, because SmolLM2 could not be loaded: {error}", flush=True)
        return lazy.load(STORIES, None, **options)


def _load_next(first: LazyPair, *names: str, **options: Any) -> Pair:
    """Load another pair after `first`, because `first` is ready sooner if it is loaded alone."""
    with suppress(ValueError):  # the first pair's error is reported by its own users
        first.load()
    return lazy.load(*names, **options)


if __name__ == "__main__":
    main()
