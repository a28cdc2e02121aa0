"""The parts of the page for a lecturer, who opens a room beside the lessons and sees it above every view, and
the page for students."""

from __future__ import annotations

from functools import cache
from typing import Annotated

import segno
from pydantic import Field

from components.classroom.web import Hall
from components.page import assets, frame, questions
from specdec.pair import Pair

_SHEETS = (
    *("shared/colours", "page/base", "shared/controls", "page/page"),
    *("lessons/style", "classroom/style"),
)


class _Link(questions.Question):
    link: Annotated[str, Field(pattern=r"^https?://[\x21-\x7e]{1,280}$")]


@questions.answers
def qr(question: _Link) -> questions.Answer:
    """A link as a QR code: the width in modules, and the dark modules as an SVG path."""
    code = segno.make(question.link, error="m", micro=False)
    dark = [(x, y) for y, row in enumerate(code.matrix) for x, module in enumerate(row) if module]
    return {"size": len(code.matrix), "path": "".join(f"M{x} {y}h1v1h-1z" for x, y in dark)}


@cache
def student_page() -> bytes:
    """The student's page, small enough for a whole class on one network. It shows the lecturer's step.

    Its links are relative, so it works under any address.
    """
    sheets = [assets.file_url(assets.ASSETS / f"{name}.css") for name in _SHEETS]
    script = assets.file_url(assets.ASSETS / "classroom" / "student.js")
    return frame.template("classroom/student", sheets=sheets, script=script).encode()


def bar(pair: Pair) -> frame.Part:
    """The part above all views: the room's join code, and the rounds in which the class drafts a text."""
    Hall(pair).open_routes(student_page)
    return frame.panel("class_bar", frame.template("classroom/bar"), functions=[qr])


def panel() -> frame.Part:
    """The part of the lessons' view in which a lecturer opens and closes a room."""
    return frame.panel("classroom", frame.template("classroom/panel"))
