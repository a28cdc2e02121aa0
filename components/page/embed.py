"""The small page that plays one run and may stand in a frame of any other page.

    /embed?trace=wide-tree                     a recorded run
    /embed?prompt=Once&method=gsd&seed=3       a run that the server decodes when its visitor asks for it

Save > Embed writes the HTML of the frame. All other pages of the server may not be framed.
"""

from __future__ import annotations

from typing import Any

from fastapi.responses import HTMLResponse

from components.guard import routes
from specdec.notebook import player

HOME = "/embed"


async def _answer(scope: Any, receive: Any, send: Any) -> None:
    await HTMLResponse(player.empty("embedded"))(scope, receive, send)


def open_route() -> None:
    """Answer `HOME` from now on."""
    routes.add(HOME, _answer, framed=True)
