"""The address of the visitor who sent a request. Limits apply to each address.

If the request came through a trusted proxy, uvicorn takes the address from X-Forwarded-For: it goes through
the entries from the right and stops at the first one that is not a trusted proxy. By default no header is
trusted. Tests that need visitors with many addresses connect from 127.0.0.2, ...
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradio import Request

_VARIABLE = "FORWARDED_ALLOW_IPS"
"""The environment variable with the trusted proxies for uvicorn; Gradio's launcher has no option for them."""

asking: ContextVar[str] = ContextVar("asking", default="")
"""The address of the visitor whose question to a panel is being answered."""


def trust(proxies: str) -> None:
    """Set the trusted proxies, before the server starts: addresses and networks separated by commas."""
    os.environ[_VARIABLE] = proxies


def behind_proxy() -> bool:
    """Whether any proxy is trusted."""
    return bool(os.environ.get(_VARIABLE))


def of(request: Request) -> str:
    """The address of the visitor who sent this request to an endpoint."""
    assert request.request is not None, "a request that came through the network"
    return address(request.request.scope)


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
