"""What all panels share: their files, how one is mounted in the browser, how a page is served.

A panel is a `gr.HTML` with a *static* template. Gradio evaluates templates as JavaScript, so model
text never enters one: it travels as a JSON value to `assets/js`, which writes it as text.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import gradio as gr
import plotly
from fastapi.exceptions import RequestValidationError

from components import connections, events, guard, limits, questions

ASSETS = Path(__file__).resolve().parent.parent / "assets"
SCRIPTS = ASSETS / "js"
STYLES = ASSETS / "css"
PLOTLY = Path(plotly.__file__).resolve().parent / "package_data" / "plotly.min.js"

# What is listed here becomes public: scripts, styles and one file of plotly, never the weights.
gr.set_static_paths([SCRIPTS, STYLES, PLOTLY])

_MOUNT = """
const page = import(new URL({main}, document.baseURI).href);
watch("value", () => {{
  const value = props.value;
  page.then(({{ receive }}) => receive({name}, value, server));
}});
page.then(({{ mount }}) => mount({name}, element, props, server, trigger));
"""


def file_url(path: Path) -> str:
    """Where the browser finds a file of the static paths, relative to the page."""
    return f"gradio_api/file={quote(path.as_posix())}"


def panel(name: str, template: str, **props: Any) -> gr.HTML:
    """A persistent element that `assets/js/<name>.js` fills; `props` reach it as plain data.

    Views read stores in the browser, so only what a run streams to (`components.run`, `components.compare`)
    is ever sent a value.
    """
    main = json.dumps(file_url(SCRIPTS / "main.js"))
    return gr.HTML(
        value="",
        html_template=template,
        js_on_load=_MOUNT.format(main=main, name=json.dumps(name)),
        apply_default_css=False,
        elem_id=name,
        elem_classes=["panel"],
        **props,
    )


# Gradio tells of the first tab as selected before the address was read: nothing is written until then.
# Whatever else is in the address stays there; an unknown name opens the first tab. Gradio measures whether
# the tabs fit before they have their final width, and again when the window is resized.
_TAB_FROM_URL = """() => {{
  const wanted = new URLSearchParams(location.search).get("tab");
  window.tabFromUrl = true;
  const measure = () => window.dispatchEvent(new Event("resize"));
  const observer = new ResizeObserver(measure);
  const row = document.querySelector("#tabs > .tab-wrapper");
  for (const element of [row, ...row.querySelectorAll("[aria-hidden] button")]) observer.observe(element);
  return {{ __type__: "update", ...({names}.includes(wanted) ? {{ selected: wanted }} : {{}}) }};
}}"""
_TAB_TO_URL = """() => {{
  if (!window.tabFromUrl) return;
  const url = new URL(location.href);
  if (url.searchParams.get("tab") === {name}) return;
  {change};
  history.pushState(history.state, "", url);
}}"""


def tabs_in_url(blocks: gr.Blocks, tabs: gr.Tabs) -> None:
    """Open the tab that the address names, `/?tab=<id>`, and keep the name there when it is changed.

    The browser's Back goes to the tab before, which `assets/js/setup.js` opens. The first tab needs no name.
    To be called within `blocks`, after all its tabs are placed.
    """
    names = [tab.id for tab in tabs.children]
    quiet = {"show_progress": "hidden", "api_visibility": "private"}
    blocks.load(None, None, tabs, js=_TAB_FROM_URL.format(names=json.dumps(names)), **quiet)
    for tab in tabs.children:
        name = json.dumps(tab.id if tab.id != names[0] else None)
        change = "url.searchParams." + (f'set("tab", {name})' if tab.id != names[0] else 'delete("tab")')
        tab.select(None, js=_TAB_TO_URL.format(name=name, change=change), **quiet)


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
        # Gradio would rewrite the selectors of css_paths; a linked file stays as it is.
        head="".join(
            f'<link rel="stylesheet" href="{file_url(sheet)}">' for sheet in sorted(STYLES.glob("*.css"))
        ),
        footer_links=["api", "settings"],
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


@asynccontextmanager
async def _guarded(app: Any) -> AsyncIterator[None]:
    """Put the guard around the app when its server starts; Gradio puts its own middleware around others."""
    fresh = tuple(f"/{unquote(file_url(folder))}/" for folder in (SCRIPTS, STYLES))
    app.middleware_stack = guard.Guard(app.middleware_stack, fresh)
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


def alone(build_panel: Callable[[], Any], **changes: Any) -> None:
    """Serve one panel by itself, with a short real run of the embedded pair."""
    import specdec
    from components import run

    pair = specdec.load_pair()
    settings = run.Settings(prompt="Once upon a time", max_new_tokens=48, **changes)
    with gr.Blocks(title="Speculative decoding") as blocks:
        build_panel()
        feed = run.feed()
        blocks.load(
            lambda: (yield from run.updates(pair, settings)),
            outputs=feed,
            show_progress="hidden",
            api_visibility="private",
        )
    launch(blocks)
