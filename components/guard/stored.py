"""Answers that are the same for every visitor: Gradio makes them once, and they are sent compressed from
memory.

Gradio takes 30 ms to write the page and as long again for its 150 scripts and styles. An arriving class would
take that time from the visitors who decode. Pages contain the address under which the visitor reaches the
server; a placeholder is replaced by it.
"""

from __future__ import annotations

import asyncio
import gzip
import re
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import brotli
from fastapi import Request
from gradio import route_utils

from components.guard import routes
from components.guard.bodies import Refused, again, collected
from components.guard.routes import Route

MOST_BYTES = 64 * 2**20
LARGEST = 8 * 2**20
"""Bytes that are stored: of all answers together, and of one."""
_PACKED_PAGES = 32
"""Compressed pages that are stored, one for each address under which visitors reach the server."""
_STAND_IN = b"made-once.invalid"
_ROOT = re.compile(r"https?://[\w.:\[\]-]+(/[\w./~%-]*)?")
_HEADERS = (b"content-type", b"etag", b"last-modified", b"cache-control", b"content-disposition")
_WORTH_PACKING = 400
_QUICK, _SMALLEST = 5, 11
"""Qualities of compression: milliseconds a file, and up to a second for a tenth less."""
_PACKED = re.compile(r"text/|application/(javascript|json|manifest)|image/svg")
Headers = list[tuple[bytes, bytes]]
Key = tuple[Any, ...]


@dataclass(frozen=True)
class Answer:
    """The answer of an app. root: the server's address as it stands in a page."""

    status: int
    headers: Headers
    body: bytes
    root: bytes = b""

    def header(self, name: bytes) -> bytes:
        """The value of a header, or an empty text."""
        return dict(self.headers).get(name, b"")


class StoredAnswers:
    """The stored answers of an app, for one event loop."""

    def __init__(self, app: Any):
        self._app = app
        self._answers: dict[Key, Answer] = {}
        self._packed: OrderedDict[Key, bytes] = OrderedDict()
        self._pages: OrderedDict[Key, bytes] = OrderedDict()
        self._bytes = 0
        self._making, self._packing, self._repacking = (asyncio.Lock() for _ in range(3))
        self._repacks: list[asyncio.Task[None]] = []

    async def serve(self, scope: Any, send: Any, route: Route) -> None:
        """Answer a GET or HEAD request. `Refused` if no page can be made for the visitor's address of the
        server."""
        page = route.stored == "page"
        root = _root(scope) if page else b""
        version = route.changed(scope["path"]), scope["app"].get_blocks().share
        key = (scope["path"].rstrip("/"), version)
        answer = self._answers.get(key) or await self._made(route.answers or self._app, scope, key, page)
        if answer.header(b"etag") and _header(scope, b"if-none-match") == answer.header(b"etag"):
            await _send(send, 304, answer.headers, b"", None)
            return
        encoding, body = _encoding(scope, answer), answer.body
        if page:
            body = body.replace(answer.root, root)
        if encoding:
            packed = await self._smaller(body, encoding, (*key, root, encoding), page)
            encoding, body = (encoding, packed) if packed else (b"", body)
        encoded = [(b"content-encoding", encoding), (b"vary", b"accept-encoding")] if encoding else []
        sent = b"" if scope["method"] == "HEAD" else body
        await _send(send, answer.status, [*answer.headers, *encoded], sent, len(body))

    async def _made(self, app: Any, scope: Any, key: Key, page: bool) -> Answer:
        async with self._making:
            if key in self._answers:
                return self._answers[key]
            answer = await _made(app, scope, page)
            if answer.status == 200 and self._fits(answer.body):
                self._answers[key] = answer
            return answer

    async def _smaller(self, body: bytes, encoding: bytes, key: Key, page: bool) -> bytes:
        """The compressed body. It is empty if compressing would have to wait for other pages."""
        store = self._pages if page else self._packed
        if key in store:
            return store[key]
        if page and self._packing.locked():
            return b""
        async with self._packing:
            packed = await asyncio.to_thread(_pack, body, encoding)
        if page or self._fits(packed):
            store[key] = packed
            if encoding == b"br" and not page:
                self._repacks.append(asyncio.create_task(self._repack(key, body)))
        while len(self._pages) > _PACKED_PAGES:
            self._pages.popitem(last=False)
        return packed

    async def _repack(self, key: Key, body: bytes) -> None:
        """Compress a file as far as possible, which takes long: the first visitors get it less compressed."""
        async with self._repacking:
            self._packed[key] = await asyncio.to_thread(_pack, body, b"br", _SMALLEST)

    def _fits(self, body: bytes) -> bool:
        """Reserve memory for the answer. Returns whether there was room."""
        fits = len(body) <= LARGEST and self._bytes + len(body) <= MOST_BYTES
        self._bytes += len(body) if fits else 0
        return fits


async def _made(app: Any, scope: Any, page: bool) -> Answer:
    """The app's answer to a plain GET of this path."""
    path = scope["path"].rstrip("/") or "/"
    headers = [(b"host", _STAND_IN if page else _header(scope, b"host"))]
    plain = {**scope, "method": "GET", "path": path, "raw_path": path.encode(), "query_string": b""}
    plain |= {"headers": headers, "scheme": "http", "state": {}}
    status, sent, body = await collected(app, plain, again(b"", asyncio.Event().wait))
    headers = [(name, value) for name, value in sent if name.lower() in _HEADERS]
    if path == "/":
        body = routes.with_additions(body)
    return Answer(status, headers, body, _root(plain) if page else b"")


def _root(scope: Any) -> bytes:
    """The server's address as this request reached it, computed as Gradio does."""
    blocks = scope["app"].get_blocks()
    within = scope["app"].root_path or scope.get("root_path") or blocks.custom_mount_path
    try:
        root = route_utils.get_root_url(Request(scope), scope["path"].rstrip("/"), within)
    except Exception:
        root = ""
    if not _ROOT.fullmatch(root):
        raise Refused(400, "the request does not say by which address it reached this server")
    return root.encode()


def _header(scope: Mapping[str, Any], name: bytes) -> bytes:
    return dict(scope["headers"]).get(name, b"")


def _encoding(scope: Mapping[str, Any], answer: Answer) -> bytes:
    """The content encoding that suits this visitor; empty for none."""
    kind = answer.header(b"content-type").decode("latin-1")
    if len(answer.body) < _WORTH_PACKING or not _PACKED.match(kind):
        return b""
    offered = [part.replace(b" ", b"").split(b";") for part in _header(scope, b"accept-encoding").split(b",")]
    accepted = [name for name, *rest in offered if b"q=0" not in rest]
    return next((encoding for encoding in (b"br", b"gzip") if encoding in accepted), b"")


def _pack(body: bytes, encoding: bytes, quality: int = _QUICK) -> bytes:
    return brotli.compress(body, quality=quality) if encoding == b"br" else gzip.compress(body, 6, mtime=0)


async def _send(send: Any, status: int, headers: Headers, body: bytes, length: int | None) -> None:
    all_headers = [*headers, *([] if length is None else [(b"content-length", str(length).encode())])]
    await send({"type": "http.response.start", "status": status, "headers": all_headers})
    await send({"type": "http.response.body", "body": body})
