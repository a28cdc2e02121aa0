"""How a page is served: its look, its headers, its queue."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import gradio as gr
from fastapi.exceptions import RequestValidationError

from components.guard import connections, events, guard, limits
from components.page import questions
from components.page.assets import OPENING, file_url, style


def theme() -> gr.themes.Base:
    """Gradio's default look with fonts of the visitor's own machine: nothing to fetch."""
    fonts = ["system-ui", "-apple-system", "Segoe UI", "Roboto", "sans-serif"]
    mono = ["ui-monospace", "SFMono-Regular", "Menlo", "Consolas", "monospace"]
    look = gr.themes.Default(primary_hue="green", neutral_hue="slate", font=fonts, font_mono=mono)
    # Gradio's own are too light to read: white letters on green (2.3 : 1), grey ones on white (2.6 : 1).
    return look.set(
        button_primary_background_fill="*primary_700",
        button_primary_background_fill_dark="*primary_700",
        button_primary_background_fill_hover="*primary_800",
        button_primary_background_fill_hover_dark="*primary_800",
        body_text_color_subdued="*neutral_600",
        body_text_color_subdued_dark="*neutral_300",
        block_info_text_color="*neutral_600",
        block_info_text_color_dark="*neutral_300",
    )


_MOST_EVENTS = 512
"""Events of all visitors that may wait to be begun; they begin at once unless all threads are taken."""
_THREADS = 40
"""For everything that does not wait for the model."""


def launch(blocks: gr.Blocks, **options: Any) -> None:
    """Serve a page with the project's theme and style; `options` go to `Blocks.launch`."""
    most = limits.current()
    connections.allow_many()
    connections.install()
    os.environ["FORWARDED_ALLOW_IPS"] = ""  # uvicorn believes nobody: see `addresses`
    threads = most.seats + most.waiting + most.checks + most.checks_waiting + _THREADS
    # The model has a queue of its own (`turns`), whose waiting runs hold a thread each; what does not touch
    # it waits for nobody.
    blocks.queue(default_concurrency_limit=None, max_size=_MOST_EVENTS)
    _look_seldom(blocks)
    events.bound(blocks)
    blocks.launch(
        max_threads=threads,
        enable_monitoring=False,
        max_file_size=1,  # nothing on the page is uploaded: files are read in the browser
        theme=theme(),
        head=_head(),
        footer_links=["api"],
        run_history=False,
        # Gradio keeps the page's whole config, a sixth of a megabyte, for each of the latest 10,000 visitors.
        # There is nothing of theirs in it: for one who is forgotten it is made anew, in 10 ms, at the next
        # event. Only events that run ask for it again and again, and each of them has a thread.
        state_session_capacity=threads,
        ssr_mode=False,
        app_kwargs={
            "lifespan": _guarded,
            "exception_handlers": {RequestValidationError: questions.refuse},
        },
        **options,
    )


def _head() -> str:
    """The page's style sheet, and its scripts, fetched beside Gradio's and not one after the other."""
    # Gradio would rewrite the selectors of css_paths; a linked file stays as it is
    scripts = (f'<link rel="modulepreload" href="{file_url(script)}">' for script in OPENING)
    return "".join([f'<link rel="stylesheet" href="{style()}">', *scripts])


@asynccontextmanager
async def _guarded(app: Any) -> AsyncIterator[None]:
    """Put the guard around the app when its server starts; Gradio puts its own middleware around others."""
    framed_by = guard.HUB if "SPACE_ID" in os.environ else ""
    app.middleware_stack = guard.Guard(app.middleware_stack, framed_by)
    watching = asyncio.create_task(connections.watch(app))
    yield
    watching.cancel()


def _look_seldom(blocks: gr.Blocks) -> None:
    """Let Gradio's queue look for new events 50 times a second, not a thousand times.

    Each look takes the interpreter's lock from the thread that decodes; an idle server spent 7% of a core on
    them. Gradio has no option for it; on Windows it looks 20 times a second of its own accord.
    """
    blocks._queue.sleep_when_free = 0.02
    blocks._queue.progress_update_sleep_when_free = 0.1  # nothing here reports progress through Gradio
