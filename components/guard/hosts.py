"""The names that this server answers to, and the pages that may send it requests.

A browser lets a stranger's page call a server under that page's own host name, and the stranger can point the
name at 127.0.0.1 (DNS rebinding). So the server accepts only known names: IP addresses, which cannot be
rebound, `localhost`, this machine's own name, and stated names (`--names page.example.org`). Behind trusted
proxies (`addresses`) it accepts any name, because visitors use the proxy's names.
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
    if addresses.behind_proxy() or name == "localhost" or name.endswith(".localhost"):
        return True
    return name in _names | _own() or _is_number(name.strip("[]"))


def same_origin(headers: Mapping[bytes, bytes]) -> bool:
    """Whether a request comes from a page of this server, or from a program that is no browser.

    A browser states in Sec-Fetch-Site whether the page is the server's own; without encryption it states only
    Origin, which is compared with the names by which the server was reached. A proxy may drop the port from
    them (nginx's `$host`), and then the host names alone are compared. A page on another port of the same
    host would pass there, but no page of a foreign host.
    """
    site, origin = headers.get(b"sec-fetch-site"), headers.get(b"origin")
    if site in (b"same-origin", b"none") or (site is None and origin is None):
        return True
    if site == b"cross-site" or origin is None:
        return False
    page = origin.partition(b"://")[2].decode("latin-1").lower()
    host = name(page)
    own = {headers.get(key, b"").decode("latin-1").lower() for key in (b"host", b"x-forwarded-host")}
    return host is not None and (host in _names or page in own or (site is None and host in own))


def compared(headers: Mapping[bytes, bytes]) -> str:
    """The headers that `same_origin` compares, in words for whoever sets up a proxy."""
    names = ("Origin", "Sec-Fetch-Site", "Host", "X-Forwarded-Host")
    stated = {each: headers.get(each.lower().encode()) for each in names}
    return ", ".join(f"{each} {value.decode('latin-1')!a:.80}" for each, value in stated.items() if value)


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
