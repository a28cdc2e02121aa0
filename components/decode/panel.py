"""The layout of the tab: the controls, the text, the tree beside the race, the player, the statistics."""

from __future__ import annotations

from typing import Any

from components.decode import controls, race, replay, result, statistics, stepper, text, tree
from components.page import frame
from components.server.access import Access
from components.server.lazy import shared
from components.server.loading import Loading

CLAIM = "A small model guesses ahead, a large one checks all guesses at once: same text, fewer slow steps."

_PAIR = '<p class="shown"></p><p class="next" id="next-pair"></p>'


def panel(pair: Any, allowed: Access | None, loading: Loading | None = None) -> frame.Part:
    """The whole tab. allowed: the models that may be loaded. loading: the load that the page shows."""
    pair = shared(pair)
    form = controls.panel(pair, allowed, loading)
    return frame.box(
        "page",
        f'<div id="claim"><p>{CLAIM}</p></div>\n',
        frame.panel("shown_pair", _PAIR),
        form,
        replay.panel(list(form.fields[controls.PART]), pair.chats),
        text.panel(),
        frame.box("figures", result.panel(), tree.panel(), race.panel()),
        stepper.panel(),
        statistics.panel(pair),
        class_="simple",
    )
