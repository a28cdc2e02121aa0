"""Several methods side by side, from the same prompt and seed. They run one after the other.

The comparison shows that ERSD writes the text of autoregressive decoding whatever the draft is, that GSD
writes another text of the same distribution, and how fast each method is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from gradio import Request

from components.compare import run as compare_run
from components.compare.drafts import LABELS, Drafts
from components.decode import controls
from components.page import frame
from components.page.assets import ASSETS
from components.page.catalogue import legend, method_menu
from components.page.questions import Answer, answers
from components.runs import topologies
from components.visitors import addresses, limits
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
"""Examples of columns, by title, in the notation of `assets/compare/columns.js`. The view opens with the
first one."""

SHARED: dict[bool, dict[str, Any]] = {
    True: {"prompt": controls.QUESTIONS[0], "seed": 7, "length": 64, "temperature": 0.7},
    False: {"prompt": controls.STORIES[0], "seed": 7, "length": 64, "temperature": 1},
}
"""The first values of the form. The key says whether the page's models chat."""
RECORDED = {
    chats: ASSETS / "results" / f"{name}.json" for chats, name in ((True, "compare.chat"), (False, "compare"))
}
"""The files of the recorded comparisons that the view opens with. The key says whether the page's models
chat. `record_columns` writes the files."""


def panel(pair: Pair) -> frame.Part:
    """The comparison. `assets/compare/panel.js` draws it and receives the updates of each run."""
    chats = pair.chats

    @answers
    def recorded(_: Any) -> Answer:
        """The comparison that `record_columns` recorded."""
        return json.loads(RECORDED[chats].read_bytes())

    drafts = Drafts(pair)

    # The function is not `async`, so that a visitor who leaves ends it after a round and ZeroGPU can run it.
    def compare(request: Request, asked: dict[str, Any]) -> Iterator[str]:
        yield from compare_run.updates(drafts, asked, address=addresses.of(request))

    compare.__doc__ = compare_run.description()
    return frame.panel(
        "compare",
        frame.template("compare/panel", examples=EXAMPLES, legend=legend("rejected"), **SHARED[chats]),
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
        prompts={
            "programs": controls.CODE[0],
            "questions": controls.QUESTIONS[0],
            "stories": controls.STORIES[0],
        },
        examples=[{"title": title, "columns": columns} for title, columns in EXAMPLES.items()],
    )
