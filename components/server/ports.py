"""The server's port, its limit of open connections, and the address by which other machines reach it."""

from __future__ import annotations

import os
import socket
from contextlib import suppress


def check(host: str | None, port: int | None) -> None:
    """Raise ValueError if the server cannot listen on this port. port: with None Gradio finds a free port."""
    if port is None:
        return
    if not 0 <= port <= 65_535:
        raise ValueError(f"port = {port} is not a number from 0 to 65,535")
    host = (host or os.environ.get("GRADIO_SERVER_NAME") or "127.0.0.1").strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, port), family=family).close()
    except OSError as error:
        raise ValueError(f"port = {port}: {error.strerror}; choose another one with --port") from None


def allow_connections() -> None:
    """Raise this process's limit of open connections, often 1024, to the machine's maximum. A class of 400
    students has more than 1024."""
    with suppress(ImportError):  # Windows has no such limit
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def for_others(host: str | None) -> str | None:
    """The address under which other machines reach this one.

    None if the server listens on a single address, or if there is no network.
    """
    if host not in ("0.0.0.0", "::"):
        return None
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # reserved for documentation; a UDP socket sends nothing here
        return str(probe.getsockname()[0])
    return None
