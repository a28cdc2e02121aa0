"""A panel by itself, with a real run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradio as gr

import specdec
from components.page import serving
from components.server import feed, run
from components.server.settings import VisitorSettings


def alone(build_panel: Callable[[], Any], **changes: Any) -> None:
    """Serve one panel by itself, with a short real run of the embedded pair."""

    pair = specdec.load_pair()
    settings = VisitorSettings(prompt="Once upon a time", max_new_tokens=48, **changes)
    with gr.Blocks(title="Speculative decoding") as blocks:
        build_panel()
        view = feed.panel()
        blocks.load(
            lambda: (yield from run.updates(pair, settings)),
            outputs=view,
            show_progress="hidden",
            api_visibility="private",
        )
    serving.launch(blocks)
