"""The checks that every request must pass before it reaches the app.

    name of the server known? --> route in the list? --> the app
                                                    '--> POST: JSON of the server's own page, within size and
                                                         time, paid from its address's bucket --> the app

This is plain ASGI middleware for any Gradio app: `app_kwargs={"middleware": [Middleware(Guard)]}` for a
Blocks, `gradio.Server(middleware=[Middleware(Guard)])`. `routes` lists the paths, `limits` the amounts. A
refusal is a status and one line of text. A proxy must stop floods of requests; see docs/serving.md.
"""

from __future__ import annotations

import asyncio
import logging
import os
from typing import Any

from fastapi.responses import JSONResponse
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware.body_limit import RequestBodyLimitMiddleware

from components.guard import hosts, routes
from components.guard.buckets import Buckets
from components.visitors import limits
from components.visitors.addresses import address

HUB = "https://huggingface.co https://*.huggingface.co https://*.hf.space"
"""The hosts that may embed a Space in a frame."""
_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; worker-src 'self' blob:; object-src 'none'; "
    "base-uri 'self'; form-action 'self'; frame-ancestors "
)


def policy(ancestors: str = "") -> str:
    """The Content-Security-Policy of a page. ancestors: the pages that may show it in a frame; by default the
    server's own pages and, for a Space, the hub."""
    return _POLICY + (ancestors or (f"'self' {HUB}" if "SPACE_ID" in os.environ else "'self'"))


class Guard:
    """ASGI middleware that refuses invalid requests and adds security headers."""

    def __init__(self, app: Any):
        self.app = app
        self.buckets = Buckets(limits.current().units, limits.current().units_per_second)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass on valid requests and refuse the others."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        begun = False

        async def sending(message: Any) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                _add_headers(MutableHeaders(scope=message))
            await send(message)

        try:
            route = await self._checked_route(scope)
            app = route.answers or self.app
            if route.method == "POST":
                app = RequestBodyLimitMiddleware(app, limits.current().request_bytes)
                receive = _with_deadline(limits.current().request_seconds, receive)
            await app(scope, receive, sending)
        except Exception as error:
            refused = error if isinstance(error, HTTPException) else _log_failure(scope, error)
            if not begun:
                await JSONResponse({"detail": refused.detail}, refused.status_code)(scope, receive, sending)

    async def _checked_route(self, scope: Any) -> routes.Route:
        """The route of a request, if the request is valid. Its cost is charged to the visitor's address.

        HTTPException otherwise.
        """
        headers = Headers(scope=scope)
        if not hosts.known(host := headers.get("host", "")):
            hint = "its operator can add names with --names"
            raise HTTPException(421, f"this server is not called {host:.80}; {hint}")
        if (route := routes.matching(scope["method"], scope["path"])) is None:
            raise HTTPException(404, "there is nothing at this address")
        if route.method == "POST":
            if not hosts.same_origin(headers):
                own = "only requests from this server's own page are accepted; this one has"
                raise HTTPException(403, f"{own} {hosts.compared(headers)}")
            if headers.get("content-type", "").partition(";")[0].strip() != "application/json":
                raise HTTPException(415, "the request's content type must be application/json")
            await self.buckets.wait(address(scope), route.cost)
        return route


def _with_deadline(seconds: float, receive: Any) -> Any:
    """A replacement of ASGI's `receive` that raises HTTPException if the body takes longer than these seconds
    to arrive."""
    end, more = asyncio.get_running_loop().time() + seconds, True

    async def next_message() -> Any:
        nonlocal more
        try:
            async with asyncio.timeout_at(end if more else None):
                message = await receive()
        except TimeoutError:
            raise HTTPException(408, f"the request did not arrive within {seconds:g} seconds") from None
        more = message.get("more_body", False)
        return message

    return next_message


def _add_headers(headers: MutableHeaders) -> None:
    headers["x-content-type-options"], headers["referrer-policy"] = "nosniff", "same-origin"
    kind = headers.get("content-type", "")
    if kind.startswith("text/event-stream"):
        headers["x-accel-buffering"] = "no"  # tells nginx to pass on each message immediately
    if kind.startswith("text/html"):
        headers.setdefault("content-security-policy", policy())


def _log_failure(scope: Any, error: Exception) -> HTTPException:
    """Log a failure in one line, because a visitor may cause many. The level DEBUG adds the traceback."""
    log, line = logging.getLogger(__name__), "%s %.80a failed: %.200a"
    log.error(line, scope["method"], scope["path"], error, exc_info=log.isEnabledFor(logging.DEBUG))
    return HTTPException(500, "the request failed; the server's log says why")
