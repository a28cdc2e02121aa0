"""The small page that plays one run, and that any other page may show in a frame.

    /embed?trace=wide-tree                     a recorded run
    /embed?prompt=Once&method=gsd&seed=3       a run that the server decodes when a visitor starts it

Save > Embed writes the HTML of the frame. Other pages may not show the rest of this server in a frame.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from fastapi import Request

from components.guard import routes
from components.guard.guard import policy
from components.page import assets
from specdec.notebook import player

HOME = "/embed"


@cache
def _page() -> assets.Packed:
    return assets.pack(player.empty("embedded").encode())


async def _answer(scope: Any, receive: Any, send: Any) -> None:
    headers = {"cache-control": "no-cache", "content-security-policy": policy("* file:")}
    answer = assets.packed(Request(scope), _page(), "text/html; charset=utf-8", headers)
    await answer(scope, receive, send)


def open_route() -> None:
    """Answer `HOME` from now on."""
    routes.add(HOME, _answer)
