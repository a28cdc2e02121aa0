"""The address of a request's visitor. Limits count by it.

uvicorn takes it from X-Forwarded-For if the request came through a trusted proxy: it goes through the entries
from the right and stops at the first one that is no trusted proxy. `trust` states the proxies. By default no
header is believed. Tests that need visitors of many addresses on one machine connect from 127.0.0.2, ...
"""

from __future__ import annotations

import argparse
import ipaddress
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

_PRIVATE = "127.0.0.0/8,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,100.64.0.0/10,fc00::/7,::1"
"""The proxies of a Space and of Gradio's tunnel, whose visitors never have private addresses."""
_VARIABLE = "FORWARDED_ALLOW_IPS"
"""uvicorn reads the trusted proxies here; Gradio's launcher has no option for them."""


def trust(proxies: str) -> None:
    """State the trusted proxies: addresses and networks with commas. Called before the server starts."""
    os.environ[_VARIABLE] = proxies


def trust_only_stated() -> None:
    """Let uvicorn trust nobody if nothing was stated; by itself it trusts this machine."""
    os.environ.setdefault(_VARIABLE, "")


def behind_proxy() -> bool:
    """Whether any proxy is trusted."""
    return bool(os.environ.get(_VARIABLE))


def address(scope: Mapping[str, Any]) -> str:
    """The visitor's address, from an ASGI scope: an IPv4 address, or the /64 network of an IPv6 address,
    because a visitor usually has the whole network. It is "" for a Unix socket."""
    peer = str((scope.get("client") or ("",))[0])
    try:
        ip = ipaddress.ip_address(peer)
    except ValueError:
        return peer
    ip = getattr(ip, "ipv4_mapped", None) or ip
    if ip.version == 4 or ip.is_loopback:
        return str(ip)
    return str(ipaddress.ip_network((int(ip), 64), strict=False))


def from_options(options: argparse.Namespace, environment: Mapping[str, str] = os.environ) -> str:
    """The stated proxies, otherwise those known for the place; "0" states that there are none. ValueError
    quotes what is no address."""
    if options.proxy is None:
        return _PRIVATE if "SPACE_ID" in environment or options.share else ""
    stated = [each.strip() for each in options.proxy.split(",")]
    if stated == ["0"]:
        return ""
    for each in stated:
        if each.isdigit() or not _is_network(each):
            raise ValueError(f"proxy = {each!r:.60} is no address or network, like 127.0.0.1 or 10.0.0.0/8")
    return ",".join(stated)


def _is_network(text: str) -> bool:
    with suppress(ValueError):
        return bool(ipaddress.ip_network(text))
    return False
