"""The student's page. It is small enough for a whole class on one network and shows the lecturer's step."""

from __future__ import annotations

from functools import cache

from components.page import assets, frame

_SHEETS = ("shared/colours", "shared/controls", "page/page", "lessons/style", "classroom/style")


@cache
def page() -> bytes:
    """The page's HTML. Its links are relative, so it works under any address."""
    sheets = [assets.file_url(assets.ASSETS / f"{name}.css") for name in _SHEETS]
    script = assets.file_url(assets.ASSETS / "classroom" / "student.js")
    return frame.template("classroom/student", sheets=sheets, script=script).encode()
