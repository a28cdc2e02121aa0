"""The table of routes that this server answers; all others get 404.

Gradio has some sixty routes: uploads, recordings, deep links, proxies, documentation. The page and
`gradio_client` need only those below. A pattern for the whole path identifies a route.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

SESSION = r"[A-Za-z0-9_-]{1,64}"
"""The name that a tab gives itself. Gradio stores it."""
MOST_QUERY = 32_768
"""Bytes of an address's query, which holds the setup of the page."""
MOST_FIELDS = 300
"""Fields of a query."""
LONGEST_PATH = 1000
"""Characters of a path."""
LONGEST_NAME = 200
"""Characters of one part of a path. File systems allow hardly longer names."""
API = "/gradio_api"
FILES = "/files"
"""The folder of the page's own files. Browsers check them on each visit, so no script is out of date."""


QUICK = ("stop", "missing", "state", "cancel")
"""Server functions of the page that compute nothing: they stop a run, repeat its updates, and watch or cancel
a load of models.

They have a line of their own, because a visitor who presses Stop must not wait for computations of seconds.
"""


@dataclass(frozen=True)
class Route:
    """One route.

    methods: the allowed methods; path: a pattern for the whole path. stored: the answer is the same for all
    visitors and is stored: "page" if it contains the server's address, otherwise "file". body:
    "json" if the route takes a body. asks: it calls a function of the page and waits for its turn (`line`).
    answers: an ASGI app that replaces Gradio's. price: its cost, if it differs from the usual one. within:
    decides whether a request comes from within a room. changed: gives a value of a path that changes
    whenever the stored answer is out of date. framed: whether any other page may show the answer in a frame.
    listens: the answer is the stream of messages of a session or an event.
    """

    methods: tuple[str, ...]
    path: re.Pattern[str]
    stored: str = ""
    body: str = ""
    asks: bool = False
    answers: Any = None
    price: int = 0
    within: Callable[[Any], bool] | None = None
    changed: Callable[[str], Any] = lambda _: None
    framed: bool = False
    listens: bool = False

    @property
    def cost(self) -> int:
        """The cost in units of `pace`, each about a tenth of a millisecond."""
        return self.price or {"page": 200, "file": 1}.get(self.stored, 5)


def _get(path: str, stored: str = "", listens: bool = False) -> Route:
    return Route(("GET", "HEAD"), re.compile(path), stored, listens=listens)


def _post(path: str, body: str = "json", asks: bool = False) -> Route:
    return Route(("POST",), re.compile(path), body=body, asks=asks)


ROUTES = [
    _get("/", stored="page"),
    _get("/config/?", stored="page"),
    _get(f"{API}/info/?", stored="page"),
    _get(r"/(assets|static)/.+", stored="file"),
    _get(rf"({API})?/theme\.css", stored="file"),
    _get(r"/(manifest\.json|favicon\.ico|robots\.txt)", stored="file"),
    _get(f"{API}/(startup-events|app_id|queue/status)"),
    _get(f"{API}/queue/data"),
    _get(f"{API}/heartbeat/{SESSION}"),
    _post(f"{API}/queue/join"),
    _post(f"{API}/(cancel|reset/?)"),
    _post(rf"{API}/call(/v2)?/\w+/?"),
    _get(rf"{API}/call(/v2)?/\w+/{SESSION}"),
    _post(r"/ask/\w+/\w+"),
    _get("/files/.+"),
]


def add_files(answers: Any, changed: Callable[[str], Any]) -> None:
    """Answer paths below `FILES` with an ASGI app. changed: gives a value of a path that changes with its
    file."""
    path = re.compile(f"{FILES}/.+")
    ROUTES.append(Route(("GET", "HEAD"), path, "file", answers=answers, changed=changed))


def add(
    path: str,
    body: str,
    answers: Any,
    price: int = 0,
    within: Callable[[Any], bool] | None = None,
    stored: str = "",
    framed: bool = False,
) -> None:
    """Answer one more path with an ASGI app: by POST, or by GET if `body` is empty. A second call replaces
    the first."""
    ROUTES[:] = [route for route in ROUTES if not (route.answers and route.path.fullmatch(path))]
    method = "POST" if body else "GET"
    pattern = re.compile(re.escape(path))
    route = Route(
        (method,), pattern, stored, body, answers=answers, price=price, within=within, framed=framed
    )
    ROUTES.append(route)


def may_be_framed(scope: Any) -> bool:
    """Whether any other page may show the answer to this request in a frame."""
    return scope["type"] == "http" and any(route.framed for route in _routes_at(scope["path"]))


_added = {b"</head>": b"", b"<gradio-app": b""}  # by the tag before which they stand


def add_to_page(head: str, body: str) -> None:
    """Add HTML to the head of Gradio's page and to the beginning of its body."""
    _added.update(zip(_added, (head.encode(), body.encode()), strict=True))


def with_additions(page: bytes) -> bytes:
    """Gradio's page with what was added to it."""
    for tag, html in _added.items():
        before, tag_there, after = page.rpartition(tag)
        page = before + html + tag_there + after if tag_there else page
    return page


def matching(method: str, path: str) -> Route | None:
    """The route of a request. None if there is none or the path is written in an unusual way."""
    if posixpath.normpath(path) != (path.rstrip("/") or "/") or not path.isprintable():
        return None
    if max(map(len, path.split("/"))) > LONGEST_NAME:
        return None
    return next((route for route in _routes_at(path) if method in route.methods), None)


def methods(path: str) -> list[str]:
    """The methods that a path accepts."""
    return [method for route in _routes_at(path) for method in route.methods]


def _routes_at(path: str) -> Iterator[Route]:
    return (route for route in ROUTES if route.path.fullmatch(path))
