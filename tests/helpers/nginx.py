"""nginx and Caddy with the configurations that `docs/serving.md` shows."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
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


def configured(address: str, port: int, folder: Path) -> str:
    """The documented configuration for a server at `address` and a proxy on this port of this machine. It
    differs only in these two and in the folders that nginx writes to."""
    paths = "".join(f"\n    {name}_temp_path {folder}/{name};" for name in _FOLDERS)
    text = documented("nginx")
    for shown, used in (
        ("listen 80 ", f"listen 127.0.0.1:{port} "),
        ("server 127.0.0.1:7860;", f"server {urlsplit(address).netloc};"),
        ("/var/cache/nginx-decoding", f"{folder}/cache"),
        ("http {", f"http {{{paths}\n    access_log off;"),
    ):
        assert text.count(shown) == 1, f"the documented configuration has no {shown!r}"
        text = text.replace(shown, used)
    return text


@contextmanager
def nginx(address: str, folder: Path) -> Iterator[str]:
    """Run nginx in front of the server at `address`. Yields the address of the proxy."""
    assert NGINX, "nginx is missing"
    port = free_port()
    outside = f"http://127.0.0.1:{port}"
    (folder / "nginx.conf").write_text(configured(address, port, folder))
    folder.chmod(0o755)  # nginx's workers belong to another user
    error = folder / "error.log"
    settings = f"daemon off; pid {folder}/pid; error_log {error};"
    command = [NGINX, "-p", str(folder), "-c", "nginx.conf", "-e", str(error), "-g", settings]
    with subprocess.Popen(command) as process:
        try:
            wait_for(outside, process)
            yield outside
        finally:
            process.terminate()
