"""The layout of the tab: the controls, the text, the tree beside the race, the player, the statistics."""

from __future__ import annotations

from typing import Any

import gradio as gr

from components.decode import controls, race, replay, statistics, stepper, text, tree
from components.page import setup
from components.server.access import Access
from components.server.lazy import shared

CLAIM = "A small model guesses ahead, a large one checks all guesses at once: same text, fewer slow steps."


def panel(pair: Any, allowed: Access | None) -> setup.Fields:
    """The whole tab. allowed: the models that may be loaded."""
    with gr.Column(elem_id="page"):
        gr.HTML(f"<p>{CLAIM}</p>", elem_id="claim", apply_default_css=False)
        pair = shared(pair)
        fields = controls.build(pair, allowed)
        replay.panel(list(fields), pair.chats)
        text.panel()
        with gr.Row(elem_id="figures"):
            tree.panel()
            race.panel()
        stepper.panel()
        statistics.panel(pair)
    return fields
