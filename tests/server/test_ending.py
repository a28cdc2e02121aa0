"""Ctrl+C ends the server with one line and within seconds, also at its start and while it is busy."""

import asyncio
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from tests.stress.attacks import ATTACKS
from tests.stress.visitors import ROOT, free_port, wait_for

SECONDS = 30.0
"""Seconds until the process must be gone. Runs and streams for which it could wait last longer."""


@pytest.fixture
def start():
    """Start the app with these options of `Popen`. Returns the process and its address."""
    servers = []

    def started(**options):
        port = free_port()
        command = [sys.executable, str(ROOT / "app.py"), "--port", str(port)]
        pipes = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
        servers.append(subprocess.Popen(command, text=True, **pipes, **options))
        return servers[-1], f"http://127.0.0.1:{port}"

    yield started
    for server in servers:
        server.kill()
        server.wait()


def ended(server, number):
    """The last lines of a server after a signal, its error output, and its exit code."""
    start = time.monotonic()
    server.send_signal(number)
    out, errors = server.communicate(timeout=60)
    assert time.monotonic() - start < SECONDS
    return out.strip().splitlines()[-1], errors, server.returncode


def _handles(pid, number):
    """Whether a process has a handler of its own for this signal. Python has none for SIGTERM."""
    status = Path(f"/proc/{pid}/status").read_text()
    return bool(int(re.search(r"SigCgt:\s*(\w+)", status)[1], 16) >> (number - 1) & 1)


def test_at_its_start(start):
    server, _ = start()
    while not _handles(server.pid, signal.SIGTERM):  # the first thing that it does; now it imports modules
        time.sleep(0.01)
    assert ended(server, signal.SIGTERM) == ("The server was ended by SIGTERM.", "", 0)


def test_while_visitors_wait_and_decode_on_a_full_disk(start, tmp_path):
    """The server starts and decodes where no file may grow beyond a kilobyte, and leaves none behind."""
    full = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (1000, 1000))
    server, address = start(env=os.environ | {"TMPDIR": str(tmp_path)}, preexec_fn=full)
    wait_for(address, server)
    busy = threading.Thread(target=lambda: asyncio.run(ATTACKS["streams"][1](address, 4.0)), daemon=True)
    busy.start()
    time.sleep(2)
    line, errors, code = ended(server, signal.SIGINT)
    assert (line, code) == ("The server was ended by SIGINT.", 130)
    assert "Traceback" not in errors
    busy.join(60)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
