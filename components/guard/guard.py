"""The checks in front of the whole app. A request must pass them before Gradio sees it.

    name of the server known? --> route in the table? --> query, range valid --> stored answer: send it
                                                     '--> body within its bounds --> in its turn --> the app

One ASGI middleware around all others applies rules that are data: `routes` lists the paths, `limits` the
amounts. A refusal is a status and one line of text. It ends the connection if a part of the request may still
be on its way.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any
from urllib.parse import parse_qs

from components.guard import hosts, limits, routes
from components.guard.addresses import address
from components.guard.bodies import Arriving, Bounds, Refused, again, check_values, collected
from components.guard.events import check_open, check_owner, session_of
from components.guard.failures import brief
from components.guard.line import Line, Place
from components.guard.pace import FAILED, REFUSED, SECOND, UNIT_BYTES, Purses
from components.guard.sessions import Sessions
from components.guard.stored import StoredAnswers

AT_ONCE = 1
"""Questions of a line that are computed at once. They share the machine with the decoder, so the
next one begins after a pause as long as the last one's computation.
"""
_DRAIN = 1.0
"""Seconds that a refused client has to finish sending. Many clients read no answer before they have sent
all.
"""
_DRAINED = 2_000_000
_PIECE = 65_536
"""Bytes of an answer that uvicorn gets at once."""
HUB = "https://huggingface.co https://*.huggingface.co https://*.hf.space"
"""The hosts that may embed a Space in a frame."""
_TUNNEL = "https://gradio.s3-us-west-2.amazonaws.com"
_POLICY = {
    "default-src": "'self'",
    # Gradio's page has inline scripts and compiles templates to functions.
    "script-src": "'self' 'unsafe-inline' 'unsafe-eval' blob:",
    "style-src": "'self' 'unsafe-inline'",
    "img-src": "'self' data: blob:",
    "font-src": "'self' data:",
    "worker-src": "'self' blob:",
    "object-src": "'none'",
    "base-uri": "'self'",
    "form-action": "'self'",
    "frame-ancestors": "'self'",
}
_FROM_TUNNEL = ("default-src", "script-src", "style-src", "font-src", "img-src")
_RANGE = re.compile(rb"bytes=(\d{1,15}-\d{0,15}|-\d{1,15})")


class Guard:
    """ASGI middleware around a Gradio app. framed_by: other hosts that may embed the page in a frame."""

    def __init__(self, app: Any, framed_by: str = ""):
        self.app, self.framed_by = app, framed_by
        self.stored = StoredAnswers(app)
        self.arriving = Arriving()
        self.questions, self.quick = Line(AT_ONCE), Line(AT_ONCE)
        self.purses = Purses()
        self.sessions = Sessions()
        self.unsent: Counter[str] = Counter()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass on valid requests and refuse the others."""
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008})
        else:
            await self.app(scope, receive, send)

    async def _http(self, scope: Any, receive: Any, send: Any) -> None:
        visitor = address(scope)
        scope = scope | {"pay": partial(self.purses.pay, visitor)}  # `events` charges for failed events
        sending = Sending(send, partial(self._headers, scope), scope["pay"])
        try:
            await self._checked(scope, receive, sending, visitor)
        except Refused as refused:
            await _refuse(receive, sending, refused)
        except ConnectionError:
            pass  # the visitor left, so there is nobody to answer
        except Exception as error:
            logging.getLogger(__name__).error(
                "%s %.80r failed: %s", scope["method"], scope["path"], brief(error)
            )
            if sending.begun:
                self.purses.pay(visitor, FAILED)
            else:
                await _refuse(receive, sending, Refused(500, "this did not work; the server's log says why"))

    async def _checked(self, scope: Any, receive: Any, send: Any, visitor: str) -> None:
        headers = dict(scope["headers"])
        _check_name(headers)
        route = _route(scope)
        await self.purses.wait(_payer(route, scope, visitor), route.cost)
        sessions = _named_sessions(scope)
        for session in sessions:
            self.sessions.check(session, visitor)
        if route.listens:
            event = scope["path"].rsplit("/", 1)[-1] if "/call/" in scope["path"] else ""
            queue = scope["app"].get_blocks()._queue
            # Gradio, too, takes the last session that a query names
            check_open(queue, session_of(queue, event) if event else next(reversed(sessions), ""), visitor)
        if b"range" in headers and not _RANGE.fullmatch(headers[b"range"]):
            raise Refused(416, "at most one range of bytes can be requested")
        # HTTP allows a server to answer a range request with the whole file
        whole = [header for header in scope["headers"] if header[0] not in (b"range", b"if-range")]
        scope = scope | {"headers": whole}  # an app that answers may change its copy
        if route.stored:
            await self.stored.serve(scope, send, route)
        elif route.body:
            await self._posted(route, scope, receive, send, visitor)
        else:
            await (route.answers or self.app)(scope, receive, send)

    async def _posted(self, route: routes.Route, scope: Any, receive: Any, send: Any, visitor: str) -> None:
        _check_sender(scope)
        body = await self.arriving.read(scope, receive, visitor, _bounds())
        session, event, function = _check_json(scope, body, route.asks)
        if session:
            self.sessions.check(session, visitor)
        if event:
            queue = scope["app"].get_blocks()._queue
            check_owner(queue, session_of(queue, event), visitor)
        app = route.answers or self.app
        if route.asks:
            line = self.quick if function in routes.QUICK else self.questions
            await self._asked(app, scope, body, receive, send, visitor, line)
        else:
            await app(scope, again(body, receive), send)

    async def _asked(
        self, app: Any, scope: Any, body: bytes, receive: Any, send: Any, visitor: str, line: Line
    ) -> None:
        """Compute an answer in this visitor's turn. It is sent after the turn, because the client may read
        slowly."""
        async with self._turn(line, visitor, receive) as place:
            start = time.monotonic()
            status, headers, answer = await collected(app, scope, again(body, receive))
            seconds = time.monotonic() - start
            self.purses.pay(visitor, int(seconds * SECOND))
            place.rest = seconds
        if self.unsent[visitor] + len(answer) > limits.current().unsent_bytes:
            raise Refused(429, "your address has not taken the answers that were sent to it before")
        self.unsent[visitor] += len(answer)
        try:
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": answer})
        finally:
            self.unsent -= Counter({visitor: len(answer)})

    @asynccontextmanager
    async def _turn(self, line: Line, visitor: str, receive: Any) -> AsyncIterator[Place]:
        """This visitor's turn in the line. ConnectionError if the visitor leaves before the turn."""
        waiting = line.place(visitor, limits.current().questions_per_visitor)
        coming = asyncio.ensure_future(waiting.__aenter__())
        leaving = asyncio.ensure_future(receive())
        await asyncio.wait([coming, leaving], return_when=asyncio.FIRST_COMPLETED)
        if not coming.done():
            coming.cancel()
            raise ConnectionError("the client left")
        leaving.cancel()
        try:
            yield coming.result()
        finally:
            await waiting.__aexit__(None, None, None)

    def _headers(self, scope: Any, message: Any) -> list[tuple[bytes, bytes]]:
        """The headers that are added to every answer."""
        more = [(b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"same-origin")]
        if any(n.lower() == b"content-type" and b"text/html" in value for n, value in message["headers"]):
            framed_by = None if routes.may_be_framed(scope) else self.framed_by
            more.append((b"content-security-policy", _policy(scope["app"].get_blocks().share, framed_by)))
        if scope["path"].startswith(routes.FILES):
            more.append((b"cache-control", b"no-cache"))
        return more


class Sending:
    """The `send` of one request.

    It adds headers, sends a large body in pieces at the client's pace, and charges the client's address for
    the answer: by its size, and more for a refusal or a failure.
    """

    def __init__(self, send: Any, headers: Any, pay: Any):
        self._send, self._headers, self._pay = send, headers, pay
        self.begun = False

    async def __call__(self, message: Any) -> None:
        """Send one message of ASGI."""
        if message["type"] == "http.response.start":
            self.begun = True
            if (status := message["status"]) >= 400:
                self._pay(FAILED if status >= 500 else REFUSED)
            await self._send(message | {"headers": [*message["headers"], *self._headers(message)]})
            return
        body, more = memoryview(message.get("body", b"")), message.get("more_body", False)
        self._pay(len(body) // UNIT_BYTES)
        starts = range(0, max(1, len(body)), _PIECE)
        for start in starts:  # uvicorn sends a piece after most of the earlier ones were read
            piece, follows = bytes(body[start : start + _PIECE]), more or start != starts[-1]
            await self._send({"type": "http.response.body", "body": piece, "more_body": follows})


def _policy(shared: bool, framed_by: str | None) -> bytes:
    """The content security policy: what the page may load, and who may embed it.

    shared: the page comes through Gradio's tunnel and loads Gradio's own scripts from Gradio's servers.
    framed_by: the other hosts that may show it in a frame; None allows every page.
    """
    parts = _POLICY | ({name: f"{_POLICY[name]} {_TUNNEL}" for name in _FROM_TUNNEL} if shared else {})
    if framed_by is None:
        del parts["frame-ancestors"]
    else:
        parts["frame-ancestors"] = f"'self' {framed_by}".rstrip()
    return "; ".join(f"{name} {value}" for name, value in parts.items()).encode()


def _check_name(headers: dict[bytes, bytes]) -> None:
    host = headers.get(b"host", b"").decode("latin-1")
    name = hosts.name(host)
    if name is None:
        raise Refused(400, "the request does not say by which name it reached this server")
    if not hosts.known(name):
        raise Refused(421, f"this server is not called {name:.80}; its operator can add the name: --names")


def _check_sender(scope: Any) -> None:
    """Refuse a request that another site's page may have sent: a browser sends a form without asking
    first."""
    headers = dict(scope["headers"])
    if not hosts.same_origin(headers):
        raise Refused(403, "requests are taken from this server's own page only, not from another one")
    if headers.get(b"content-type", b"").partition(b";")[0].strip() != b"application/json":
        raise Refused(415, "the request's content type must be application/json")


def _route(scope: Any) -> routes.Route:
    if len(scope["path"]) > routes.LONGEST_PATH:
        raise Refused(414, f"the address is longer than {routes.LONGEST_PATH:,} characters")
    route = routes.matching(scope["method"], scope["path"])
    if route is not None:
        return route
    allowed = routes.methods(scope["path"])
    if allowed and scope["method"] not in allowed:
        raise Refused(405, "not by this method", allow=", ".join(allowed))
    raise Refused(404, "there is nothing here")


def _payer(route: routes.Route, scope: Any, visitor: str) -> str:
    """The key of the purse that pays for the request.

    Members of a class's room have a purse of their own besides that of their address. A flood from the same
    address by someone in no room therefore does not stop the class.
    """
    return f"{visitor}, in a room" if route.within and route.within(scope) else visitor


def _named_sessions(scope: Any) -> list[str]:
    """The sessions that the request's address names. `Refused` if a query is too long or a name is
    malformed."""
    query = scope["query_string"]
    if len(query) > routes.MOST_QUERY:
        raise Refused(414, f"the address is longer than {routes.MOST_QUERY:,} characters")
    try:
        fields = parse_qs(query.decode("latin-1"), keep_blank_values=True, max_num_fields=routes.MOST_FIELDS)
    except ValueError:
        raise Refused(414, f"the address has more than {routes.MOST_FIELDS} fields") from None
    sessions = fields.get("session_hash", [])
    for session in sessions:
        _check_session(session)
    if scope["path"].startswith(f"{routes.API}/heartbeat/"):
        sessions.append(scope["path"].rsplit("/", 1)[-1])
    return sessions


def _check_json(scope: Any, body: bytes, asks: bool) -> tuple[str | None, str | None, Any]:
    """The session, the event and the function that a body names.

    `Refused` if the body has too many values, a name that Gradio would store, or an event that the page does
    not have.
    """
    check_values(body)
    with suppress(ValueError, RecursionError):  # Gradio reports what is wrong with it
        asked = json.loads(body)
        if isinstance(asked, dict):
            for name in ("session_hash", "event_id"):
                _check_session(asked.get(name))
            if asks:
                _check_component(scope, asked.get("component_id"))
            return asked.get("session_hash"), asked.get("event_id"), asked.get("fn_name")
    return None, None, None


def _check_component(scope: Any, number: Any) -> None:
    if not isinstance(number, int) or number not in scope["app"].get_blocks().blocks:
        raise Refused(400, f"component_id = {number!r:.40} is no part of this page")


def _check_session(session: Any) -> None:
    if session is not None and not (isinstance(session, str) and re.fullmatch(routes.SESSION, session)):
        raise Refused(400, "session_hash and event_id are at most 64 letters, digits, _ and -")


def _bounds() -> Bounds:
    most = limits.current()
    return Bounds(most.request_bytes, most.request_seconds, most.bodies_per_visitor, most.bodies)


async def _refuse(receive: Any, send: Any, refused: Refused) -> None:
    """Answer at once, then let the client finish for a moment. The connection ends afterwards."""
    text = json.dumps({"detail": refused.text}).encode()
    basic = {"content-type": "application/json", "content-length": str(len(text)), "connection": "close"}
    headers = [(name.encode(), value.encode("latin-1")) for name, value in (basic | refused.headers).items()]
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": text, "more_body": True})
    with suppress(TimeoutError):
        async with asyncio.timeout(_DRAIN):
            await _drained(receive)
    await send({"type": "http.response.body", "body": b""})


async def _drained(receive: Any) -> None:
    remaining = _DRAINED
    while remaining > 0:
        message = await receive()
        remaining -= len(message.get("body", b""))
        if not message.get("more_body"):
            return
