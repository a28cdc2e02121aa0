"""nginx and Caddy with the configurations that `docs/serving.md` shows."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.stress.visitors import ROOT, free_port, wait_for

NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
CADDY = shutil.which("caddy")
_FOLDERS = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


def documented(language: str) -> str:
    """The block of `docs/serving.md` in this language."""
    page = (ROOT / "docs" / "serving.md").read_text()
    [block] = re.findall(rf"^```{language}\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    return block


def _changed(text: str, *changes: tuple[str, str]) -> str:
    for old, new in changes:
        assert text.count(old) == 1, f"the documented configuration has no {old!r}"
        text = text.replace(old, new)
    return text


@contextmanager
def nginx(address: str, prefix: str = "") -> Iterator[str]:
    """Run nginx in front of the server at `address`. Yields the address of the page behind the proxy.

    The documented configuration is used. It differs only in the addresses of the server and the proxy, in the
    folders that nginx writes to, and in the path below which the page lies.
    """
    assert NGINX, "nginx is missing"
    place = f"127.0.0.1:{free_port()}"
    at_root = "location / { proxy_pass http://decoding; }"
    with tempfile.TemporaryDirectory() as folder:
        paths = "".join(f"\n    {name}_temp_path {folder}/{name};" for name in _FOLDERS)
        text = _changed(
            documented("nginx"),
            ("listen 80 ", f"listen {place} "),
            ("server 127.0.0.1:7860;", f"server {urlsplit(address).netloc};"),
            ("/var/cache/nginx-decoding", f"{folder}/cache"),
            ("http {", f"http {{{paths}\n    access_log off;"),
            (at_root, f"location {prefix}/ {{ proxy_pass http://decoding/; }}" if prefix else at_root),
        )
        Path(folder, "nginx.conf").write_text(text)
        Path(folder).chmod(0o755)  # nginx's workers belong to another user
        error = f"{folder}/error.log"
        settings = f"daemon off; pid {folder}/pid; error_log {error};"
        with _running(NGINX, "-p", folder, "-c", "nginx.conf", "-e", error, "-g", settings) as process:
            wait_for(f"http://{place}{prefix}/", process)
            yield f"http://{place}{prefix}"


@contextmanager
def caddy(address: str) -> Iterator[str]:
    """Run Caddy in front of the server at `address`. Yields the address of the page behind it. The documented
    configuration is used, except for the names of the page and the server."""
    assert CADDY, "Caddy is missing"
    outside = f"http://127.0.0.1:{free_port()}"
    with tempfile.TemporaryDirectory() as folder:
        text = _changed(
            documented("caddyfile").replace("{", "{\n\tadmin off", 1),
            ("page.example.org", outside),
            ("127.0.0.1:7860", urlsplit(address).netloc),
        )
        file = Path(folder, "Caddyfile")
        file.write_text(text)
        home = os.environ | {"HOME": folder}
        with _running(CADDY, "run", "--adapter", "caddyfile", "--config", str(file), env=home) as process:
            wait_for(outside, process)
            yield outside


@contextmanager
def _running(*command: str, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(command, **options) as process:
        try:
            yield process
        finally:
            process.terminate()
