"""Single panels, served as they are or with a real run to show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradio as gr

import specdec
from components.page import serving
from components.page.settings import VisitorSettings
from components.server import feed, run


def serve(*panels: Callable[[], Any]) -> None:
    """Serve a page with these panels, one below the other."""
    with gr.Blocks(title="Speculative decoding") as blocks:
        for panel in panels:
            panel()
    serving.launch(blocks)


def alone(panel: Callable[[], Any], **changes: Any) -> None:
    """Serve one panel together with a short real run of the embedded pair."""
    pair = specdec.load_pair("stories")
    settings = VisitorSettings(prompt="Once upon a time", max_new_tokens=48, **changes)

    def running() -> None:
        gr.on(
            fn=lambda: (yield from run.updates(pair, settings)),
            outputs=feed.panel(),
            show_progress="hidden",
            api_visibility="private",
        )

    serve(panel, running)
