"""The bodies of requests: their size, and the time in which they must arrive."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import HTTPException


class Refused(HTTPException):
    """A request that is refused with a status and a line of text: `Refused(404, "there is no such room")`."""


def bounded(receive: Any, most: int, seconds: float) -> Any:
    """A `receive` for an app, which raises `Refused` if the body is longer than `most` bytes or takes longer
    than these seconds to arrive."""
    end, size, more = asyncio.get_running_loop().time() + seconds, 0, True

    async def next_message() -> Any:
        nonlocal size, more
        try:
            async with asyncio.timeout_at(end if more else None):
                message = await receive()
        except TimeoutError:
            raise Refused(408, f"the request did not arrive within {seconds:g} seconds") from None
        size, more = size + len(message.get("body", b"")), message.get("more_body", False)
        if size > most:
            raise Refused(413, f"the request is larger than {most:,} bytes")
        return message

    return next_message
