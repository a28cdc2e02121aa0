"""The layout of the view: the controls, the text, the tree beside the race, the player and the statistics."""

from __future__ import annotations

from typing import Any

from components.decode import controls, replay
from components.decode.panels import of_run
from components.page import frame
from components.runs import lazy, run

_CLAIM = (
    "A small model guesses ahead, a large one checks all guesses at once: "
    '<span class="promise">same text</span>, fewer slow calls.'
)
"""The page's headline, which promises the same text. For methods that keep only the distribution of texts,
`assets/page/pair.js` replaces this promise."""
_PAIR = (
    '<p class="shown"></p><p class="question"></p><p class="loads"></p><p class="next" id="next-pair"></p>'
)


def panel(pair: Any) -> frame.Part:
    """The whole view."""
    pair = lazy.shared(pair)
    form = controls.panel(pair)
    return frame.box(
        "page",
        f'<div id="claim"><p>{_CLAIM}</p></div>\n',
        frame.panel("shown_pair", _PAIR),
        form,
        replay.panel(list(form.fields[controls.PART]), pair.chats),
        of_run("text"),
        frame.box("figures", *map(of_run, ("result", "tree", "race"))),
        of_run("stepper"),
        of_run("statistics", models=run.models(pair) if lazy.is_loaded(pair) else []),
        class_="simple",
    )
