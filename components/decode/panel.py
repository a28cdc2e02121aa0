"""The tab: prompt and settings, and beside them the text, its rounds, the tree and the race."""

from __future__ import annotations

from typing import Any

import gradio as gr

from components.decode import controls, race, replay, statistics, stepper, text, tree
from components.page import setup
from components.server.access import Access


def panel(pair: Any, allowed: Access | None) -> setup.Fields:
    """All of it. allowed: which models may be loaded."""
    with gr.Row(elem_id="page"):
        with gr.Column(scale=1, min_width=320, elem_id="controls"):
            fields = controls.build(pair, allowed)
        with gr.Column(scale=3, min_width=320, elem_id="results"):
            replay.panel()
            text.panel()
            stepper.panel()
            with gr.Row(elem_id="figures"):
                tree.panel()
                race.panel()
            statistics.panel(pair)
    return fields
