"""Recorded runs that play without a model, files to open, and the buttons that save and share a run."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from components.decode import traces
from components.page import assets, frame
from components.visitors import limits
from specdec import smollm2

_SAVE = [
    ("html", "Page that plays offline (HTML)"),
    ("json", "Trace (JSON)"),
    ("tree-svg", "Draft tree (SVG)"),
    ("tree-png", "Draft tree (PNG)"),
    ("race-svg", "Race (SVG)"),
    ("race-png", "Race (PNG)"),
]

_TEMPLATE = """
<section aria-labelledby="replay-title">
  <header>
    <h2 id="replay-title" class="visually-hidden">Recorded runs</h2>
    <select class="choose" aria-labelledby="replay-title">{options}</select>
    <details class="save"><summary>Save</summary><div class="menu">{save}
      <button type="button" class="link">Copy link to this moment</button>
      <button type="button" class="embed" title="HTML that plays this run in your own page">Embed</button>
      <label class="open">Open a trace …<input type="file" accept=".json,application/json"></label>
    </div></details>
  </header>
  <p class="look-line"><button type="button" class="chat" hidden>Show a chat answer</button>
    <span class="look"></span>
    <button type="button" class="go" hidden>Run it</button>
    <button type="button" class="there" hidden>Show it</button>
    <button type="button" class="twin" hidden>The same with the other method</button></p>
  <p class="replay-error" role="alert" hidden></p>
</section>
"""


_OTHER = f"For a chat model: {smollm2.INSTALL}, and start again."


def panel(settings: Sequence[str] = (), chats: bool = True) -> frame.Part:
    """The list of recorded runs. The first one plays as soon as the page is loaded.

    settings: the names of a run's settings in the address. If the address has one of them, no recorded run
    plays. chats: whether the page's models chat.
    """
    entries = traces.entries(chats)
    own = [("own", "Your own run"), ("file", "From a file")]
    names = [(entry["name"], entry["title"]) for entry in entries] + own
    options = "".join(f'<option value="{escape(name)}">{escape(title)}</option>' for name, title in names)
    save = "".join(f'<button type="button" data-save="{kind}">{label}</button>' for kind, label in _SAVE)
    template = _TEMPLATE.format(options=options, save=save)
    return frame.panel(
        "replay",
        template,
        folder=assets.file_url(traces.FOLDER),
        entries=entries,
        mostBytes=limits.current().trace_bytes,
        player=assets.empty_player(),
        settings=list(settings),
        note="" if chats or smollm2.installed() else _OTHER,
    )


if __name__ == "__main__":
    from components.decode import race, stepper, text, tree
    from components.server.standalone import serve

    serve(panel(), text.panel(), stepper.panel(), tree.panel(), race.panel())
