"""How much one visitor may ask for, in one place: from the environment or `app.py`'s command line.

Each limit has an option, `--new-tokens 200`, and a variable, `SPECDEC_NEW_TOKENS=200`. Where one bites,
`at_most` says which one, its value and what was asked for.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any


def _limit(default: int, what: str) -> Any:
    return field(default=default, metadata={"what": what})


@dataclass(frozen=True)
class Limits:
    """All limits, whole numbers from 1 up; ValueError names one that is not."""

    prompt_characters: int = _limit(20_000, "characters of a prompt")
    prompt_tokens: int = _limit(2_000, "tokens of a prompt")
    new_tokens: int = _limit(400, "tokens that one run generates")
    draft_tokens: int = _limit(64, "k, drafted tokens per round")
    seats: int = _limit(8, "runs that take turns on the model; each has caches of its own")
    waiting: int = _limit(64, "runs that wait for a seat")
    runs_per_visitor: int = _limit(2, "runs of one browser tab or API client, waiting or running")
    trace_bytes: int = _limit(5_000_000, "bytes of a trace that the page opens")
    request_bytes: int = _limit(24_000_000, "bytes of one request to the server")

    def __post_init__(self) -> None:
        for limit in fields(self):
            value = getattr(self, limit.name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{limit.name} = {value!r} is not a whole number from 1 up")


_current = Limits()


def current() -> Limits:
    """The limits in force."""
    return _current


def use(limits: Limits) -> None:
    """Put other limits in force; for the start of a server."""
    global _current
    _current = limits


def at_most(name: str, value: int, limit: int, unit: str = "") -> None:
    """ValueError where `value` is above `limit`; its message names both."""
    if value > limit:
        raise ValueError(f"{name} = {value:,}{unit and ' '}{unit} is above the limit of {limit:,} here")


def from_environment(environment: Mapping[str, str] = os.environ) -> Limits:
    """The defaults, changed by `SPECDEC_...` variables; ValueError names one that is no whole number."""
    keys = {limit.name: f"SPECDEC_{limit.name.upper()}" for limit in fields(Limits)}
    return Limits(
        **{name: _number(key, environment[key]) for name, key in keys.items() if key in environment}
    )


def add_options(parser: argparse.ArgumentParser, defaults: Limits) -> None:
    """One option for each limit, in a group of their own."""
    group = parser.add_argument_group("limits", "also as variables, for example SPECDEC_NEW_TOKENS=200")
    for limit in fields(Limits):
        option = "--" + limit.name.replace("_", "-")
        default = getattr(defaults, limit.name)
        help = f"most {limit.metadata['what']} (default: {default:,})"
        group.add_argument(option, type=int, default=default, metavar="N", help=help)


def from_options(options: argparse.Namespace) -> Limits:
    """The limits that `add_options` read; ValueError names one that is below 1."""
    return Limits(**{limit.name: getattr(options, limit.name) for limit in fields(Limits)})


def _number(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{name} = {text!r} is not a whole number") from None


class BoundedRequests:
    """ASGI middleware: a request with more than `request_bytes` in its body is answered with 413."""

    def __init__(self, app: Any):
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Refuse by the stated length, or else by what arrives."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        body = _Body(receive, current().request_bytes, _stated_length(scope))

        async def unless_too_large(message: Any) -> None:
            if not body.too_large:  # else the app has made an answer of its own from the error
                await send(message)

        try:
            if not body.too_large:
                await self.app(scope, body.receive, unless_too_large)
        except Exception:
            if not body.too_large:
                raise
        if body.too_large:
            await body.drop()
            await _refuse(send, body.limit)


class _TooLarge(Exception):  # noqa: N818 - an answer to the visitor, not an error of ours
    pass


class _Body:
    """A request's body as it arrives. stated: the length that its head claims, 0 where it claims none."""

    def __init__(self, receive: Any, limit: int, stated: int):
        self._receive, self.limit = receive, limit
        self._arrived, self._ended = 0, False
        self.too_large = stated > limit

    async def receive(self) -> Any:
        """The next message; an error where the body is too large by then."""
        message = None if self.too_large else await self._next()
        if self.too_large:
            raise _TooLarge
        return message

    async def drop(self) -> None:
        """Read to the end and keep nothing: most clients read no answer before they have sent all."""
        while not self._ended:
            await self._next()

    async def _next(self) -> Any:
        message = await self._receive()
        self._arrived += len(message.get("body", b""))
        self._ended = not message.get("more_body")  # to ask once more would wait until the client leaves
        self.too_large = self.too_large or self._arrived > self.limit
        return message


def _stated_length(scope: Any) -> int:
    stated = dict(scope["headers"]).get(b"content-length", b"0")
    return int(stated) if stated.isdigit() else 0


async def _refuse(send: Any, limit: int) -> None:
    text = f'{{"detail": "the request is larger than {limit:,} bytes"}}'.encode()
    headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": 413, "headers": headers})
    await send({"type": "http.response.body", "body": text})
