"""The list of routes that this server answers; all others get 404.

Gradio has some sixty routes: uploads, recordings, deep links, proxies, documentation. The page and
`gradio_client` need only those below.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

EVENT = 30
"""The cost of a Gradio event or of a panel's question, in the units of `limits.units`. Both start work on the
server. For comparison, a small request from a class costs 5."""


class Route(NamedTuple):
    """A kind of request that the server answers.

    method: GET, which includes HEAD, or POST; path: a pattern for the whole path. cost: units that a POST
    takes from its address. answers: an ASGI app that answers in place of the page's app.
    """

    method: str
    path: re.Pattern[str]
    cost: int = 0
    answers: Any = None


_API = "/gradio_api"
ROUTES = [
    *(Route("GET", re.compile(path)) for path in ("/", "/files/.+", "/config/?", f"{_API}/info/?")),
    Route("GET", re.compile(rf"{_API}/(startup-events|app_id|queue/(status|data)|heartbeat/[\w-]{{1,64}})")),
    Route("POST", re.compile(rf"(/ask/\w+/\w+|{_API}/(queue/join|call(/v2)?/\w+/?))"), EVENT),
    Route("GET", re.compile(rf"{_API}/call(/v2)?/\w+/[\w-]{{1,64}}")),
    Route("POST", re.compile(f"{_API}/(cancel|reset/?)")),
]


def add(path: str, answers: Any, cost: int | None = None) -> None:
    """Add a route whose requests an ASGI app answers.

    Its method is POST if a cost is given, otherwise GET. A second call for the same path replaces the first.
    """
    ROUTES[:] = [route for route in ROUTES if route.path.pattern != path]
    ROUTES.append(Route("GET" if cost is None else "POST", re.compile(path), cost or 0, answers))


def matching(method: str, path: str) -> Route | None:
    """The route of a request, or None."""
    method = "GET" if method == "HEAD" else method
    return next((each for each in ROUTES if method == each.method and each.path.fullmatch(path)), None)
