"""The mounting of panels in the browser, and the tabs of the page.

A panel is a `gr.HTML` with a *static* template. Gradio evaluates templates as JavaScript, so model text never
enters a template: it travels as a JSON value to the scripts in `assets`, which insert it as text.
"""

from __future__ import annotations

import json
from typing import Any

import gradio as gr

from components.page.assets import script

_MOUNT = """
const page = import(new URL({main}, document.baseURI).href);
watch("value", () => {{
  const value = props.value;
  page.then(({{ receive }}) => receive({name}, value));
}});
page.then(({{ mount }}) => mount({name}, element, props, server, trigger));
"""


def panel(name: str, template: str, **props: Any) -> gr.HTML:
    """A persistent element that the view `name` of `assets/main.js` fills. The view gets `props` as plain
    data.

    Views read stores in the browser. The server sends values only to panels that receive updates: a run
    (`streamed`), a comparison, a measurement of lesson 0, or the loading of models.
    """
    main = json.dumps(script())
    return gr.HTML(
        value="",
        html_template=template,
        js_on_load=_MOUNT.format(main=main, name=json.dumps(name)),
        apply_default_css=False,
        elem_id=name,
        elem_classes=["panel"],
        **props,
    )


def streamed(
    view: gr.HTML, start: gr.Button, stop: gr.Button, updates: Any, inputs: list[Any], run: str
) -> Any:
    """Let two buttons begin and stop a run whose updates the view shows. Returns the event of the run.

    updates: the event's function. It gets the values of `inputs`, unchecked, and the run's name. run: where
    the page's scripts keep the run, below `window.specdec`: begin, sent, stop, ended and isActive.
    """
    private: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
    here = f"window.specdec.{run}"
    # A visitor can press the button before the scripts have arrived.
    begin = f"""async () => {{
      while (!window.specdec?.{run}) await new Promise(requestAnimationFrame);
      {here}.begin();
    }}"""
    name = gr.Textbox("", label="Name of the run", visible="hidden")
    running = start.click(None, js=begin, **private).then(
        updates,
        [*inputs, name],
        view,
        js=f"(...values) => [...values.slice(0, -1), {here}.sent()]",
        preprocess=False,
        concurrency_limit=None,  # runs wait in `components.server.seats`, which tells them their place
        trigger_mode="multiple",  # with "once", a run would be dropped if the previous one has not ended
        **private,
    )
    when_ended(running, f"() => {here}.ended()")
    # Stop has no Python function, because the script tells the server the run's name.
    stop.click(None, js=f"() => window.specdec?.{run}?.stop()", **private)
    # The view asks for the buttons' new state when a run begins or ends.
    can_press = f"running => ({{ interactive: {here}.isActive() === running, __type__: 'update' }})"
    view.select(None, None, [start, stop], js=f"() => [false, true].map({can_press})", **private)
    return running


def when_ended(running: Any, js: str) -> None:
    """Run JavaScript after an event of Gradio, whether it ended, failed or was refused."""
    for following in (running.then, running.failure):
        following(None, js=js, show_progress="hidden", api_visibility="private")


def table(caption: str, *columns: str) -> str:
    """An empty table in HTML, which a script fills, in a box that scrolls."""
    head = "".join(f'<th scope="col">{column}</th>' for column in columns)
    return f"""<div class="scroll"><table><caption>{caption}</caption><thead><tr>{head}</tr></thead>
      <tbody></tbody></table></div>"""


def term(name: str, text: str | None = None) -> str:
    """A term in HTML. `assets/shared/glossary.js` shows its definition, one sentence, at this place."""
    return f'<dfn data-term="{name}" tabindex="0">{text or name}</dfn>'


# Gradio reports the first tab as selected, before the address is read or soon after it, so only a tab that is
# open is written. All other parts of the address stay; an unknown name opens the first tab. Gradio measures
# whether the tabs fit before they have their final width, and again when the window is resized. The codecs
# were once part of the experiments' tab, and an old address of them opens their tab.
_TAB_FROM_URL = """() => {{
  const asked = new URLSearchParams(location.search);
  const ofCodecs = [...asked.keys()].some((name) => name.startsWith("codec."));
  const wanted = asked.get("tab") === "experiments" && ofCodecs ? "codecs" : asked.get("tab");
  window.tabFromUrl = true;
  const measure = () => window.dispatchEvent(new Event("resize"));
  const observer = new ResizeObserver(measure);
  const row = document.querySelector("#tabs > .tab-wrapper");
  for (const element of [row, ...row.querySelectorAll("[aria-hidden] button")]) observer.observe(element);
  return {{ __type__: "update", ...({names}.includes(wanted) ? {{ selected: wanted }} : {{}}) }};
}}"""
_TAB_TO_URL = """() => {{
  const open = document.querySelector('#tabs > .tab-wrapper [role="tab"][aria-selected="true"]');
  if (!window.tabFromUrl || (open && open.dataset.tabId !== {tab})) return;
  const url = new URL(location.href);
  if (url.searchParams.get("tab") === {name}) return;
  {change};
  history.pushState(history.state, "", url);
}}"""


def tabs_in_url(blocks: gr.Blocks, tabs: gr.Tabs) -> None:
    """Open the tab that the address names, `/?tab=<id>`, and update the address when another tab is opened.

    On the browser's Back, `assets/page/setup.js` opens the previous tab. An address without a tab opens the
    first. Call this within `blocks`, after all its tabs.
    """
    children: list[Any] = tabs.children
    names = [tab.id for tab in children]
    quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
    blocks.load(None, None, tabs, js=_TAB_FROM_URL.format(names=json.dumps(names)), **quiet)
    for tab in children:
        name = json.dumps(tab.id if tab.id != names[0] else None)
        change = "url.searchParams." + (f'set("tab", {name})' if tab.id != names[0] else 'delete("tab")')
        script = _TAB_TO_URL.format(tab=json.dumps(tab.id), name=name, change=change)
        tab.select(None, js=script, **quiet)
