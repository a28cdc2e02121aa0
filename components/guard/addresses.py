"""The address of a request's visitor, also behind proxies. Limits count by it.

    from components.guard import addresses
    visitor = addresses.address(request.scope)  # of a Starlette request
    visitor = addresses.address(request.request.scope)  # of a `gr.Request`

The result is a text for comparison: an IPv4 address, or the /64 network of an IPv6 address, because a visitor
usually has the whole network.

A proxy appends its client's address to X-Forwarded-For; entries further left may be forged. So only the last
N entries are trusted: the operator states N proxies (`--proxy 1`, `SPECDEC_PROXY=1`), by default none.
Tests that need visitors of many addresses on one machine connect from 127.0.0.2, 127.0.0.3, ...
"""

from __future__ import annotations

import argparse
import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_MOST = 9
_IP = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True)
class Proxies:
    """The proxies in front of the server.

    count: proxies that append to X-Forwarded-For, from 0 to 9, else ValueError; the last one connects to this
    server. inner: proxies with private addresses come on top of `count`, as within the hub, whose visitors
    never have private addresses.
    """

    count: int = 0
    inner: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.count, bool) or not isinstance(self.count, int) or not 0 <= self.count <= _MOST:
            raise ValueError(f"proxy = {self.count!r} is not a number of proxies from 0 to {_MOST}")


_current = Proxies()


def current() -> Proxies:
    """The proxies in front of this server."""
    return _current


def use(proxies: Proxies) -> None:
    """Set the proxies; called when the server starts."""
    global _current
    _current = proxies


def address(scope: Mapping[str, Any], proxies: Proxies | None = None) -> str:
    """The visitor's address, from an ASGI scope. It is "" for a Unix socket, which has no address.

    If an entry of the header is no address, the result is the address of the proxy that sent the entry.
    """
    proxies = proxies or _current
    peer = (scope.get("client") or ("",))[0]
    entries = _forwarded(scope) if proxies.count else []
    if proxies.inner:
        entries = _without_inner(entries)
    # The header has fewer entries than there are proxies, so the request came in behind the first proxy. The
    # leftmost entry is the best one available.
    said = entries[-min(proxies.count, len(entries))] if entries else ""
    return _shown(_parsed(said) or _parsed(peer)) or peer


def from_options(options: argparse.Namespace, environment: Mapping[str, str] = os.environ) -> Proxies:
    """The stated proxies, otherwise those known for the place: the hub and Gradio's tunnel are one proxy
    each."""
    behind = "SPACE_ID" in environment or bool(options.share)
    stated = options.proxy
    if stated is None:
        return Proxies(int(behind), inner=behind)
    if not str(stated).isascii() or not str(stated).isdigit():
        raise ValueError(f"proxy = {stated!r:.60} is not a number of proxies from 0 to {_MOST}")
    return Proxies(int(stated), inner=behind)


def _forwarded(scope: Mapping[str, Any]) -> list[str]:
    values = [value for name, value in scope["headers"] if name == b"x-forwarded-for"]
    return [entry.strip() for entry in b",".join(values).decode("latin-1").split(",") if entry.strip()]


def _without_inner(entries: list[str]) -> list[str]:
    """The addresses without the private ones at the right end."""
    while entries and (ip := _parsed(entries[-1])) is not None and not ip.is_global:
        entries = entries[:-1]
    return entries


def _parsed(entry: str) -> _IP | None:
    """An entry as an address, with or without a port: `1.2.3.4:80`, `[::1]:80`. None if it is no address."""
    host = entry[1:].partition("]")[0] if entry.startswith("[") and "]" in entry else entry
    host = host.partition(":")[0] if host.count(":") == 1 else host
    try:
        ip = ipaddress.ip_address(host)
    except ValueError:
        return None
    return getattr(ip, "ipv4_mapped", None) or ip


def _shown(ip: _IP | None) -> str:
    if ip is None:
        return ""
    if ip.version == 4 or ip.is_loopback:
        return str(ip)
    return str(ipaddress.ip_network((int(ip), 64), strict=False))
