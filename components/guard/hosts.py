"""The host names that this server answers to, against DNS rebinding.

A browser lets a stranger's page call a server under that page's own host name, and the stranger can point the
name at 127.0.0.1. So the server accepts only known names: IP addresses, which cannot be rebound, `localhost`,
this machine's own name, and stated names (`--names page.example.org`, `SPECDEC_NAMES`). Behind proxies
(`addresses`: stated ones, a Space, Gradio's tunnel) it accepts any name, because visitors use the proxy's
names.
"""

from __future__ import annotations

import argparse
import ipaddress
import os
import re
import socket
from collections.abc import Mapping
from functools import cache

from components.guard import addresses

_LABELS = r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*"
_HOST = re.compile(rf"(?P<name>{_LABELS}|\[[0-9a-f:.]+\])\.?(:[0-9]{{1,5}})?")
_names: frozenset[str] = frozenset()


def use(names: frozenset[str]) -> None:
    """Set the stated names, besides those that are always known; called when the server starts."""
    global _names
    _names = names


def name(host: str) -> str | None:
    """The host name in a `Host` header, without its port. None if there is no valid name."""
    match = _HOST.fullmatch(host.lower()) if len(host) <= 300 else None
    return match and match["name"]


def known(name: str) -> bool:
    """Whether the server accepts this name."""
    return (
        addresses.current().count > 0
        or _is_number(name.strip("[]"))
        or name == "localhost"
        or name.endswith(".localhost")
        or name in _names | _own()
    )


def same_origin(headers: Mapping[bytes, bytes]) -> bool:
    """Whether a request comes from a page of this server, or from a program that is no browser.

    A browser states its page's origin in Sec-Fetch-Site; without encryption it states only Origin.
    """
    site, origin = headers.get(b"sec-fetch-site"), headers.get(b"origin")
    if site in (b"same-origin", b"none") or (site is None and origin is None):
        return True
    if site == b"cross-site" or origin is None:
        return False
    host = origin.partition(b"://")[2].lower()
    own = (headers.get(name, b"").lower() for name in (b"host", b"x-forwarded-host"))
    return bool(host) and (host in own or name(host.decode("latin-1")) in _names)


def from_options(options: argparse.Namespace, environment: Mapping[str, str] = os.environ) -> frozenset[str]:
    """The names that were stated by option or variable. ValueError quotes an invalid one."""
    stated = [each.strip() for each in options.names.split(",") if each.strip()]
    for each in stated:
        if name(each) is None:
            raise ValueError(f"names = {each!r:.60} is not a name like page.example.org")
    given = [options.host, *(environment.get(key, "") for key in ("GRADIO_SERVER_NAME", "SPACE_HOST"))]
    return frozenset(filter(None, (name(each) for each in [*stated, *given] if each)))


@cache
def _own() -> frozenset[str]:
    own = socket.gethostname().lower()
    return frozenset({own, own.partition(".")[0], f"{own.partition('.')[0]}.local"} - {"", ".local"})


def _is_number(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
