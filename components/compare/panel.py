"""Several methods side by side, from the same prompt and seed. They run one after the other.

The comparison shows that ERSD writes the text of autoregressive decoding whatever the draft is, that GSD
writes another text of the same distribution, and how fast each method is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import escape
from typing import Any

from gradio import Request

from components.compare import run as compare_run
from components.compare.drafts import LABELS, Drafts
from components.decode import controls, text
from components.page import frame
from components.page.assets import ASSETS
from components.page.catalogue import method_menu
from components.page.questions import Answer, answers
from components.runs import seats, topologies
from components.visitors import limits
from specdec.figures.topologies import TOPOLOGIES
from specdec.pair import Pair


def _each_draft(method: str) -> str:
    return ",".join(f"{method}.sequence.4.{draft}" for draft in LABELS)


EXAMPLES = {
    "the three methods": "ar,gsd.sequence.4.own,ersd.sequence.4.own",
    "ERSD, four drafts": _each_draft("ersd"),
    "ERSD, four trees": "ersd.simple.own,ersd.sequence.8.own,ersd.batch.8.own,ersd.specinfer.8.own",
    "GSD, four drafts": _each_draft("gsd"),
}
"""Choices of columns, in the notation of `assets/compare/columns.js`. The tab opens with the first one."""

SHARED: dict[bool, dict[str, Any]] = {
    True: {"prompt": controls.QUESTIONS[0], "seed": 7, "length": 64, "temperature": 0.7},
    False: {"prompt": controls.STORIES[0], "seed": 7, "length": 64, "temperature": 1},
}
"""The values of the form when the tab opens. The key says whether the page's models chat."""
RECORDED = {
    chats: ASSETS / "results" / f"{name}.json" for chats, name in ((True, "compare.chat"), (False, "compare"))
}
"""The comparisons with which the tab can open, by whether the page's pair is a chat model.
`record_columns` writes them."""

_OPTIONS = "".join(
    f'<option value="{escape(columns)}">{escape(title)}</option>' for title, columns in EXAMPLES.items()
)

_TEMPLATE = f"""
<section class="lab compare" aria-labelledby="compare-title">
  <form novalidate>
    <h2 class="visually-hidden" id="compare-title">Compare</h2>
    <div class="shared">
      <label class="prompt"><span>Prompt</span>
        <textarea name="prompt" rows="1">{{prompt}}</textarea></label>
      <label><span>Seed</span><span class="with-dice">
        <input name="seed" type="number" min="0" step="1" value="{{seed}}">
        <button type="button" class="dice" aria-label="New seed">new</button></span></label>
      <label><span>Length, tokens</span>
        <input name="length" type="number" min="1" step="1" value="{{length}}"></label>
      <label><span>Temperature</span>
        <input name="temperature" type="number" min="0" max="2" step="0.05" value="{{temperature}}"></label>
      <label><span>Columns</span>
        <select class="example"><option value="">own choice</option>{_OPTIONS}</select></label>
      <div class="buttons">
        <button type="button" class="add" aria-label="Add a column" title="Add a column">+</button>
        <button type="submit" class="run primary">Run</button>
        <button type="button" class="stop" disabled>Stop</button>
      </div>
    </div>
    <p class="standing"></p>
    <p class="run-error" role="alert" hidden></p>
    <p class="visually-hidden summary" role="status"></p>
  </form>
  <p class="promise">All columns have the same prompt and seed. Exponential-race speculative decoding (ERSD)
  writes exactly what the large model alone would write, <b>whatever the draft is</b>: change the draft, the
  topology or k. Greedy speculative decoding (GSD) writes another text, drawn from the same distribution.</p>
  <div class="side"></div>
  <p class="beside"></p>
  {text.legend("rejected")}
  <details><summary>Table of these numbers</summary><div class="scroll">
    <p class="note">There are no numbers yet: press Run.</p></div></details>
</section>
"""


def panel(pair: Pair) -> frame.Part:
    """The comparison. `assets/compare/panel.js` draws it and receives the updates of each run."""
    chats = pair.chats
    values = {name: escape(str(value)) for name, value in SHARED[chats].items()}

    @answers
    def recorded(_: Any) -> Answer:
        """The comparison that `record_columns` recorded."""
        return json.loads(RECORDED[chats].read_text())

    drafts = Drafts(pair)

    # The function is not `async`, so that a visitor who leaves ends it after a round and ZeroGPU can run it.
    def compare(request: Request, asked: dict[str, Any]) -> Iterator[str]:
        """Run several methods one after the other from one prompt and seed. asked: as `request` of
        `components.compare.run.updates`."""
        yield from compare_run.updates(drafts, asked, visitor=seats.visitor(request))

    return frame.panel(
        "compare",
        _TEMPLATE.format(**values),
        functions=[recorded],
        streams={"compare": compare},
        choices={
            "method": method_menu(),
            "topology": [(entry.name, name) for name, entry in TOPOLOGIES.items()],
            "draft": [(label, name) for name, label in LABELS.items()],
        },
        withoutK=topologies.WITHOUT_K,
        mostColumns=compare_run.MOST_COLUMNS,
        mostTokens=limits.current().new_tokens,
        mostDrafted=limits.current().draft_tokens,
        examples=[{"title": title, "columns": columns} for title, columns in EXAMPLES.items()],
    )
