"""How a page is served: its look, headers and queue."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import gradio as gr
from fastapi.exceptions import RequestValidationError
from fastapi.middleware import Middleware
from fastapi.middleware.gzip import GZipMiddleware

from components.guard import guard, limits
from components.page import additions, gradio_files, questions, unheard
from components.page.assets import ASSETS, file_url, publish, script, style


def theme() -> gr.themes.Base:
    """Gradio's default look with fonts of the visitor's own machine, so that no font is fetched."""
    fonts = ["system-ui", "-apple-system", "Segoe UI", "Roboto", "sans-serif"]
    mono = ["ui-monospace", "SFMono-Regular", "Menlo", "Consolas", "monospace"]
    look = gr.themes.Default(primary_hue="green", neutral_hue="slate", font=fonts, font_mono=mono)
    # Gradio's own colours have too little contrast: white letters on green (2.3 : 1), grey ones on white (2.6
    # : 1).
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
"""Events of all visitors that may wait to start. They start at once unless all threads are busy."""
_THREADS = 40
"""Threads for all work that does not wait for the model."""


def launch(blocks: gr.Blocks, **options: Any) -> None:
    """Serve a page with the project's theme and styles. `options` are passed to `Blocks.launch`."""
    most = limits.current()
    framed_by = guard.HUB if "SPACE_ID" in os.environ else ""
    threads = most.seats + most.waiting + most.checks + most.checks_waiting + _THREADS
    # Runs wait in `seats`, and each waiting run holds a thread. Other events wait for nothing.
    blocks.queue(default_concurrency_limit=None, max_size=_MOST_EVENTS)
    _look_seldom(blocks)
    _write_page(blocks)
    blocks.launch(
        max_threads=threads,
        enable_monitoring=False,
        max_file_size=1,  # the page uploads nothing: the browser reads files itself
        theme=theme(),
        footer_links=["api"],
        run_history=False,
        # Gradio stores the page's whole config, a sixth of a megabyte, for each of the latest 10,000
        # visitors. It holds no data of theirs: for a forgotten visitor it is made again at the next event.
        # Only running events need it repeatedly, and each of them has a thread.
        state_session_capacity=threads,
        ssr_mode=False,
        app_kwargs={
            "lifespan": _forgetting,
            "middleware": [
                Middleware(GZipMiddleware, compresslevel=6),
                Middleware(guard.Guard, framed_by),
                Middleware(additions.Additions),
            ],
            "exception_handlers": {RequestValidationError: questions.refuse},
        },
        **options,
    )


_PICTURE = ASSETS / "screenshots" / "desktop.png"


def _write_page(blocks: gr.Blocks) -> None:
    """Put links to style sheets and scripts into the page, and words for browsers without JavaScript.

    Gradio's option `head` adds them by script: the files load after Gradio's, and the words never appear.
    """
    publish(_PICTURE)
    ours = f'<link rel="stylesheet" href="{style()}"><link rel="modulepreload" href="{script()}">'
    additions.add_to_page(
        gradio_files.links(blocks) + ours + _LEAVE_QUIETLY,
        _WITHOUT_SCRIPTS.format(picture=file_url(_PICTURE)),
    )


_LEAVE_QUIETLY = (
    '<script>addEventListener("beforeunload", (event) => event.stopImmediatePropagation())</script>'
)
"""Gradio aborts its own requests when the page is left, and the console shows an error. The browser ends them
anyway. This listener must be the first one, so it stands in the page itself."""

_WITHOUT_SCRIPTS = """<noscript>
<div style="max-width: 760px; margin: 32px auto; padding: 0 16px; line-height: 1.5">
<h1>Speculative decoding</h1>
<p>A small language model guesses ahead, and a large one checks all guesses at once: the same text with fewer
slow steps. This page plays such runs, explains every step, and decodes your own prompts. It needs JavaScript,
which is switched off in this browser.</p>
<img src="{picture}" width="100%"
  alt="The page: a text in two colours, the tree of guesses, and the race that decides">
</div></noscript>"""


@asynccontextmanager
async def _forgetting(app: Any) -> AsyncIterator[None]:
    """Let runs end whose visitors never listen, while the server runs."""
    watching = asyncio.create_task(unheard.forget(app.get_blocks()._queue))
    yield
    watching.cancel()


def _look_seldom(blocks: gr.Blocks) -> None:
    """Let Gradio's queue check for new events 50 times a second, not a thousand times.

    Each check takes the interpreter's lock from the decoding thread; an idle server spent 7% of a core on
    them. Gradio has no option for it. On Windows it checks 20 times a second by itself.
    """
    blocks._queue.sleep_when_free = 0.02
    blocks._queue.progress_update_sleep_when_free = 0.1  # nothing here reports progress through Gradio
