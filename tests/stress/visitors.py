"""Visitors of a running page without a browser: the HTTP requests and answers of a tab.

The commands of this folder share it with the tests that need many visitors at once.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil
import torch

from components.page.settings import ADDRESSES
from specdec.commands import write_json
from specdec.devices import machine

ROOT = Path(__file__).resolve().parent.parent.parent
RESULTS = ROOT / "assets" / "results"
PATIENCE = httpx.Timeout(30, read=600, pool=600)
PROMPT = "Once upon a time"
PLAIN = {"prompt": PROMPT, "topology": "sequence", "k": 4, "max_new_tokens": 32, "baseline": False, "seed": 7}
"""The settings of a short run. All other settings are those of the page."""


@contextlib.contextmanager
def serving(
    *options: str,
    app: Path = ROOT / "app.py",
    pair: str | None = "stories",
    python: Sequence[str] = (sys.executable,),
    port: int | None = None,
) -> Iterator[tuple[str, psutil.Process]]:
    """Run the app in its own process and yield its address and the process.

    pair: None leaves the choice to the app. port: None takes a free one. An error, also of the block, has the
    process's output as its note.
    """
    port = port or free_port()
    chosen = ["--pair", pair] if pair else []
    command = [*python, str(app), "--port", str(port), *chosen, *options]
    with tempfile.TemporaryFile() as log:
        server = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        try:
            address = f"http://127.0.0.1:{port}"
            wait_for(address, server)
            yield address, psutil.Process(server.pid)
        except Exception as error:
            log.seek(0)
            error.add_note(f"The app said: {log.read().decode(errors='replace')}")
            raise
        finally:
            server.terminate()
            server.wait(30)


def free_port() -> int:
    """A port of this machine that no process listens on.

    It lies below the ports that the system gives to outgoing connections. One of these could otherwise take
    the port before the server listens on it.
    """
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with contextlib.suppress(OSError), socket.socket() as free:
            free.bind(("127.0.0.1", port))
            return port


def wait_for(address: str, server: subprocess.Popen[bytes]) -> None:
    """Wait until the app answers at this address; RuntimeError if it ends or takes five minutes."""
    end = time.monotonic() + 300
    while time.monotonic() < end and server.poll() is None:
        with contextlib.suppress(httpx.HTTPError):
            httpx.get(address, timeout=5).raise_for_status()
            return
        time.sleep(0.2)
    raise RuntimeError(f"the app at {address} did not answer")


def options(about: str, report: str, **described: tuple[Any, str]) -> Any:
    """The options of a command. described: the default and the help of each. report: the name of its file."""
    described["out"] = (RESULTS / report, "JSON file for the report")
    parser = argparse.ArgumentParser(description=about)
    parser.formatter_class = argparse.ArgumentDefaultsHelpFormatter
    for name, (default, words) in described.items():
        parser.add_argument(f"--{name}", type=type(default), default=default, help=words)
    return parser.parse_args()


def write(path: Any, figures: dict[str, Any]) -> None:
    """Write a report with a description of the machine, and print it."""
    write_json(Path(path), _rounded(figures) | {"machine": machine(torch.device("cpu"))})
    print(Path(path).read_text())


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return round(value, 4) if isinstance(value, float) else value


def client(address: str, keep: int = 64, source: str | None = None) -> httpx.AsyncClient:
    """An HTTP client with connections for this many visitors; `keep` of them stay open between requests.

    source: the address from which they come, such as 127.0.0.2. On Linux all of 127.0.0.0/8 is this machine.
    """
    # the server closes a connection after five idle seconds; a request sent at that moment would be lost
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=keep, keepalive_expiry=1)
    transport = httpx.AsyncHTTPTransport(limits=limits, local_address=source)
    return httpx.AsyncClient(base_url=address, timeout=PATIENCE, transport=transport)


@dataclass
class Visit:
    """One run as its visitor saw it. Seconds count from pressing Generate. moments: times of the updates.
    places: places in line."""

    updates: list[dict[str, Any]] = field(default_factory=list)
    moments: list[float] = field(default_factory=list)
    places: list[dict[str, Any]] = field(default_factory=list)
    first_token_seconds: float | None = None
    seconds: float = 0.0
    failure: str = ""

    @property
    def setup(self) -> dict[str, Any]:
        """The last setup that was sent, with the topology that was used."""
        return next(update["setup"] for update in reversed(self.updates) if update.get("setup"))

    @property
    def token_ids(self) -> list[int]:
        """The run's new tokens, without those of the baseline."""
        rounds = [r for update in self.updates if update["phase"] != "baseline" for r in update["rounds"]]
        return [token["id"] for r in rounds for token in r["tokens"]]

    def take(self, text: str, seconds: float) -> None:
        """Process one update as the page does."""
        update = json.loads(text)
        if update.get("waits"):
            self.places += [update["place"]] if "place" in update else []
            return
        if update["rounds"] and self.first_token_seconds is None:
            self.first_token_seconds = seconds
        self.updates.append(update)
        self.moments.append(seconds)


class Site:
    """A served page, as programs use it. defaults: the settings of its form by the endpoint's parameters."""

    def __init__(self, address: str):
        self.address = address
        html = httpx.get(address, timeout=30).raise_for_status().text
        self.props = json.loads(re.search(r'id="props">(.*)</script>', html)[1])
        self.traces = self.props["replay"]["folder"]
        fields = self.props["setup"]["fields"]["live"]
        self.defaults = {
            name: fields[address]["default"] for address, name in ADDRESSES.items() if address in fields
        }

    async def generate(self, http: httpx.AsyncClient, **changes: Any) -> Visit:
        """Press Generate with these settings and watch until the run ends."""
        visit, start = Visit(), time.monotonic()
        changed = {ADDRESSES.get(name, name): value for name, value in changes.items()}
        async for kind, message in stream(http, "decode", self.defaults | PLAIN | changed):
            if kind == "generating":
                visit.take(message, time.monotonic() - start)
            elif kind != "complete":
                visit.failure = str(message)
        visit.seconds = time.monotonic() - start
        if not visit.updates:
            visit.failure = visit.failure or "no update came"
        if visit.updates and visit.updates[-1]["phase"] == "error":
            visit.failure = visit.updates[-1]["message"]
        return visit

    async def replay(self, http: httpx.AsyncClient, name: str = "opening") -> float:
        """Open the page with a recorded run. Returns the seconds until everything that it needs has
        arrived."""
        start = time.monotonic()
        html = (await http.get("/")).raise_for_status().text
        files = set(re.findall(r"files/[^\"'\\]+\.(?:css|js)\b", html))
        for path in [*files, f"{self.traces}/{name}.json"]:
            (await http.get(f"/{path}")).raise_for_status()
        return time.monotonic() - start


async def stream(http: httpx.AsyncClient, name: str, values: Any) -> AsyncIterator[tuple[str, Any]]:
    """The messages of one stream of the page until it ends, each with its kind: generating (an update),
    complete, error, or refused (the status and the reason)."""
    # httpx's own JSON refuses values that are sent here on purpose
    content, headers = json.dumps(values).encode(), {"content-type": "application/json"}
    address = f"/gradio_api/call/v2/{name}"
    answer = await http.post(address, content=content, headers=headers)
    if answer.status_code != 200:
        yield "refused", f"{answer.status_code}: {answer.text}"
        return
    async with http.stream("GET", f"{address}/{answer.json()['event_id']}") as lines:
        kind = ""
        async for line in lines.aiter_lines():
            if line.startswith("event:"):
                kind = line[6:].strip()
            elif line.startswith("data:") and kind != "heartbeat":
                data = json.loads(line[5:])
                yield kind, data[0] if kind == "generating" else data
                if kind in ("complete", "error"):
                    return
