"""The lecturer's side: opens a room beside the lessons, and shows the room above every tab."""

from __future__ import annotations

from typing import Annotated

import segno
from pydantic import Field

from components.classroom import student
from components.classroom.web import Hall
from components.page import frame, questions
from specdec.pair import Pair


class _Link(questions.Question):
    link: Annotated[str, Field(pattern=r"^https?://[\x21-\x7e]{1,280}$")]


@questions.answers
def qr(question: _Link) -> questions.Answer:
    """A link as a QR code: the width in modules, and the dark modules as an SVG path."""
    code = segno.make(question.link, error="m", micro=False)
    dark = [(x, y) for y, row in enumerate(code.matrix) for x, module in enumerate(row) if module]
    return {"size": len(code.matrix), "path": "".join(f"M{x} {y}h1v1h-1z" for x, y in dark)}


def bar(pair: Pair) -> frame.Part:
    """The join code for the projector, and the class as the draft."""
    Hall(pair).open_routes(student.page)
    return frame.panel("class_bar", frame.template("classroom/bar"), functions=[qr])


def panel() -> frame.Part:
    """The part of the lessons' tab in which the lecturer opens and closes a room."""
    return frame.panel("classroom", frame.template("classroom/panel"))
