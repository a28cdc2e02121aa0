"""HTML that is added to Gradio's page before it is sent.

Gradio's own option `head` adds it by script: the files load after Gradio's, and words for browsers without
JavaScript never appear.
"""

from __future__ import annotations

from typing import Any

_added = {b"</head>": b"", b"<gradio-app": b""}  # by the tag before which they stand


def add_to_page(head: str, body: str) -> None:
    """Add HTML to the head of Gradio's page and to the beginning of its body."""
    _added.update(zip(_added, (head.encode(), body.encode()), strict=True))


class Additions:
    """ASGI middleware that adds the HTML to the answer for `/`."""

    def __init__(self, app: Any):
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass on all other requests unchanged."""
        if scope["type"] != "http" or scope["path"] != "/":
            await self.app(scope, receive, send)
            return
        start, page = {}, b""

        async def sending(message: Any) -> None:
            nonlocal start, page
            if message["type"] == "http.response.start":
                start = message
                return
            page += message.get("body", b"")
            if not message.get("more_body", False):
                page = _with_additions(page)
                others = [pair for pair in start["headers"] if pair[0].lower() != b"content-length"]
                await send(start | {"headers": [*others, (b"content-length", str(len(page)).encode())]})
                await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else page})

        await self.app(scope, receive, sending)


def _with_additions(page: bytes) -> bytes:
    for tag, html in _added.items():
        before, tag_there, after = page.rpartition(tag)
        page = before + html + tag_there + after if tag_there else page
    return page
