"""The checks in front of the whole app. A request must pass them before the app sees it.

    name of the server known? --> route in the list? --> the app
                                                    '--> POST: JSON of the server's own page, within size and
                                                         time, paid from its address's bucket --> the app

This is plain ASGI middleware for any Gradio app: `app_kwargs={"middleware": [Middleware(Guard)]}` for a
Blocks, `gradio.Server(middleware=[Middleware(Guard)])`. `routes` lists the paths, `limits` the amounts. A
refusal is a status and one line of text. Floods are a proxy's to keep off: docs/serving.md.
"""

from __future__ import annotations

import logging
from typing import Any

from fastapi.responses import JSONResponse

from components.guard import bodies, hosts, limits, routes
from components.guard.addresses import address
from components.guard.bodies import Refused
from components.guard.buckets import Buckets

HUB = "https://huggingface.co https://*.huggingface.co https://*.hf.space"
"""The hosts that may embed a Space in a frame."""
LONGEST = 32_768
"""Characters of an address, which holds the set-up of the page."""
_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; worker-src 'self' blob:; object-src 'none'; "
    "base-uri 'self'; form-action 'self'"
)


def _work() -> tuple[float, float]:
    most = limits.current()
    return most.units, most.units_per_second


class Guard:
    """ASGI middleware. framed_by: other hosts that may embed the page in a frame."""

    def __init__(self, app: Any, framed_by: str = ""):
        self.app, self.framed_by = app, framed_by
        self.buckets = Buckets(_work)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass on valid requests and refuse the others."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun, route = False, None

        async def sending(message: Any) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                message = message | {"headers": [*message["headers"], *self._headers(route, message)]}
            await send(message)

        try:
            route = _checked(scope)
            if route.method == "POST":
                receive = await self._paid(route, scope, receive)
            await (route.answers or self.app)(scope, receive, sending)
        except Exception as error:
            refused = error if isinstance(error, Refused) else _failed(scope, error)
            if not begun:
                await JSONResponse({"detail": refused.detail}, refused.status_code)(scope, receive, sending)

    async def _paid(self, route: routes.Route, scope: Any, receive: Any) -> Any:
        """A `receive` for the body of a POST that comes from this server's page and was paid."""
        headers, most = dict(scope["headers"]), limits.current()
        if not hosts.same_origin(headers):
            said = hosts.compared(headers)
            raise Refused(403, f"requests are taken from this server's own page only; this one has {said}")
        if headers.get(b"content-type", b"").partition(b";")[0].strip() != b"application/json":
            raise Refused(415, "the request's content type must be application/json")
        # A class has a bucket besides that of its address, so that a stranger's flood does not stop it.
        room = ", in a room" if route.within and route.within(scope) else ""
        await self.buckets.wait(address(scope) + room, route.cost)
        return bodies.bounded(receive, most.request_bytes, most.request_seconds)

    def _headers(self, route: routes.Route | None, message: Any) -> list[tuple[bytes, bytes]]:
        """The headers that are added to every answer."""
        more = [(b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"same-origin")]
        kind = dict(message["headers"]).get(b"content-type", b"")
        if kind.startswith(b"text/event-stream"):
            more.append((b"x-accel-buffering", b"no"))  # nginx passes on each message at once
        if kind.startswith(b"text/html"):
            ancestors = "* file:" if route and route.framed else f"'self' {self.framed_by}".strip()
            more.append((b"content-security-policy", f"{_POLICY}; frame-ancestors {ancestors}".encode()))
        return more


def _checked(scope: Any) -> routes.Route:
    """The route of a request. `Refused` for an unknown name of the server and for what is not in the list."""
    host = dict(scope["headers"]).get(b"host", b"").decode("latin-1")
    if (name := hosts.name(host)) is None:
        raise Refused(400, "the request does not say by which name it reached this server")
    if not hosts.known(name):
        raise Refused(421, f"this server is not called {name:.80}; its operator can add the name: --names")
    if len(scope["path"]) + len(scope["query_string"]) > LONGEST:
        raise Refused(414, "the address is too long")
    if (route := routes.matching(scope["method"], scope["path"])) is None:
        raise Refused(404, "there is nothing here")
    return route


def _failed(scope: Any, error: Exception) -> Refused:
    """Log a failure in one line, because a visitor may cause many; the level DEBUG adds the traceback."""
    log, line = logging.getLogger(__name__), "%s %.80a failed: %.200a"
    log.error(line, scope["method"], scope["path"], error, exc_info=log.isEnabledFor(logging.DEBUG))
    return Refused(500, "this did not work; the server's log says why")
