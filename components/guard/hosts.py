"""The names that this server answers to, and the pages that may send it requests.

A stranger can point the name of a page at 127.0.0.1 (DNS rebinding), and the page may then call this server.
So only known names are accepted: IP addresses, which cannot be rebound, `localhost`, this machine's name, and
stated names (`--names page.example.org`). Behind a trusted proxy any valid name is accepted. Starlette's
TrustedHostMiddleware needs a list of all names, and a server does not know all addresses of its own.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Mapping

from components.visitors import addresses

_HOST = re.compile(r"(?P<name>[\w-]+(\.[\w-]+)*|\[[0-9a-f:.]+\])\.?(:[0-9]{1,5})?", re.ASCII)
_HERE = socket.gethostname().lower()
_OWN = {"localhost", _HERE, _HERE.partition(".")[0], f"{_HERE.partition('.')[0]}.local"} - {"", ".local"}
_names: frozenset[str] = frozenset()


def use(names: frozenset[str]) -> None:
    """Set the names that the operator states, in addition to those that are always known.

    Called when the server starts.
    """
    global _names
    _names = names


def name(host: str) -> str:
    """The host name in a `Host` header, without its port; "" if there is no valid name."""
    match = _HOST.fullmatch(host.lower())
    return match["name"] if match else ""


def known(host: str) -> bool:
    """Whether the server accepts the name in this `Host` header."""
    own = name(host)
    if own in _names | _OWN or own.endswith(".localhost") or (own and addresses.behind_proxy()):
        return True
    try:
        return bool(ipaddress.ip_address(own.strip("[]")))
    except ValueError:
        return False


def same_origin(headers: Mapping[str, str]) -> bool:
    """Whether a request comes from a page of this server, or from a program that is no browser.

    A browser states in Sec-Fetch-Site whether the page is the server's own. Without encryption it states only
    Origin, which is compared with the names by which the request reached the server. A proxy may drop the
    port from these names (nginx's `$host`), and then the host names alone are compared. A page on another
    port of the same host would then pass, but no page of a foreign host.
    """
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None or origin is None:
        return site in ("same-origin", "none", None)
    page = origin.partition("://")[2].lower()
    own = {headers.get(key, "").lower() for key in ("host", "x-forwarded-host")} | _names
    return bool({page, name(page)} & (own - {""}))


def compared(headers: Mapping[str, str]) -> str:
    """A text that lists the headers which `same_origin` compares, for a person who sets up a proxy."""
    names = ("Origin", "Sec-Fetch-Site", "Host", "X-Forwarded-Host")
    return ", ".join(f"{each} {headers[each]!a:.80}" for each in names if headers.get(each))
