"""The address of a request's visitor, to which limits apply.

If the request came through a trusted proxy, uvicorn takes the address from X-Forwarded-For: it goes through
the entries from the right and stops at the first one that is not a trusted proxy. By default no header is
trusted. Tests that need visitors of many addresses on one machine connect from 127.0.0.2, ...
"""

from __future__ import annotations

import argparse
import ipaddress
import os
from collections.abc import Mapping
from typing import Any

_PRIVATE = "127.0.0.0/8,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,100.64.0.0/10,fc00::/7,::1"
"""The networks of the proxies of a Space and of Gradio's tunnel. Visitors never have such private addresses.
"""
_VARIABLE = "FORWARDED_ALLOW_IPS"
"""uvicorn reads the trusted proxies here; Gradio's launcher has no option for them."""


def trust(proxies: str) -> None:
    """Set the trusted proxies: addresses and networks with commas. Called before the server starts."""
    os.environ[_VARIABLE] = proxies


def behind_proxy() -> bool:
    """Whether any proxy is trusted."""
    return bool(os.environ.get(_VARIABLE))


def address(scope: Mapping[str, Any]) -> str:
    """The visitor's address, from an ASGI scope: an IPv4 address, or the /64 network of an IPv6 address,
    because a visitor usually has the whole network. It is "" for a Unix socket."""
    if not scope.get("client"):
        return ""
    try:
        ip = ipaddress.ip_address(scope["client"][0])
    except ValueError:  # a proxy may forward a visitor without an address, as "unknown"
        return str(scope["client"][0])
    ip = getattr(ip, "ipv4_mapped", None) or ip
    return str(ip if ip.version == 4 or ip.is_loopback else ipaddress.ip_network((int(ip), 64), strict=False))


def from_options(options: argparse.Namespace, environment: Mapping[str, str] = os.environ) -> str:
    """The stated proxies, otherwise the known proxies of the place where the page runs. "0" states that there
    are none. ValueError quotes a text that is not an address."""
    if options.proxy is None:
        return _PRIVATE if "SPACE_ID" in environment or options.share else ""
    stated = [] if options.proxy == "0" else [each.strip() for each in options.proxy.split(",")]
    for each in stated:
        try:
            ipaddress.ip_network(each)
        except ValueError:
            wrong = f"proxy = {each!r:.60} is not an address or network, such as 127.0.0.1 or 10.0.0.0/8"
            raise ValueError(wrong) from None
    return ",".join(stated)
