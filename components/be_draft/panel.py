"""The game "You draft": the words that a visitor types are the draft of each target call."""

from __future__ import annotations

from components.be_draft.questions import MOST_TYPED, questions
from components.decode.controls import STORIES
from components.page import frame
from components.page.catalogue import legend
from specdec.pair import Pair

LENGTH = 40
"""A story ends when it has this many tokens. Its last round may go a few tokens beyond."""
TEMPERATURES = (0, 0.5, 1)

_OPENINGS = sorted(STORIES[:4], key=len)
"""The beginnings of stories that a visitor can choose from, the shortest first."""


def panel(pair: Pair) -> frame.Part:
    """The game. `assets/be_draft/panel.js` runs it in the browser."""
    return frame.panel(
        "be_draft",
        frame.template(
            "be_draft/panel",
            stories=[*enumerate(_OPENINGS, 1)],
            heat=[(value, f"T = {value}") for value in TEMPERATURES],
            most_typed=MOST_TYPED,
            legend=legend("residual"),
        ),
        functions=[*questions(pair)],
        openings=_OPENINGS,
        temperatures=[*TEMPERATURES],
        length=LENGTH,
    )
