"""A model hub on this machine: it answers the requests with which huggingface_hub finds and gets a model."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.helpers.servers import running

COMMIT = "0123456789abcdef0123456789abcdef01234567"
CHUNK = 4096


class Hub(ThreadingHTTPServer):
    """Serves folders as models. seconds_per_chunk: the delay of each chunk, so that a test can cancel."""

    daemon_threads = True

    def __init__(self, models: dict[str, Path]):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.models = models
        self.gated: set[str] = set()
        self.seconds_per_chunk = 0.0
        self.sent = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_args) -> None:
        pass

    def do_GET(self) -> None:
        path = self.path.split("?")[0].strip("/")
        if path.startswith("api/models/"):
            return self._model_info(path.removeprefix("api/models/").split("/revision/")[0])
        model, _, rest = path.partition("/resolve/")
        file = self.server.models.get(model, Path("/nowhere")) / rest.partition("/")[2]
        if model in self.server.gated:
            return self._refuse(403, "GatedRepo")
        if not file.is_file():
            return self._refuse(404, "EntryNotFound")
        return self._file(file)

    def do_HEAD(self) -> None:
        self.do_GET()

    def _model_info(self, model: str) -> None:
        if model not in self.server.models:
            return self._refuse(404, "RepoNotFound")
        files = [file for file in sorted(self.server.models[model].iterdir()) if file.is_file()]
        siblings = [{"rfilename": file.name, "size": file.stat().st_size} for file in files]
        text = json.dumps({"id": model, "modelId": model, "sha": COMMIT, "siblings": siblings})
        return self._send(text.encode(), {})

    def _file(self, file: Path) -> None:
        data = file.read_bytes()
        headers = {"ETag": f'"{hashlib.sha256(data).hexdigest()}"', "X-Repo-Commit": COMMIT}
        self._send(data, headers, self.server.seconds_per_chunk if file.suffix == ".safetensors" else 0)

    def _refuse(self, status: int, code: str) -> None:
        self._send(b"{}", {"X-Error-Code": code}, status=status)

    def _send(self, data: bytes, headers: dict[str, str], pause: float = 0, status: int = 200) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        with suppress(ConnectionError):  # a cancelled download
            for start in range(0, 0 if self.command == "HEAD" else len(data), CHUNK):
                self.wfile.write(data[start : start + CHUNK])
                self.server.sent += CHUNK
                time.sleep(pause)


@contextmanager
def serving(models: dict[str, Path], monkeypatch: pytest.MonkeyPatch, cache: Path) -> Iterator[Hub]:
    """A hub that serves until the block ends. huggingface_hub asks it alone, with an empty cache in this
    folder."""
    hub = Hub(models)
    constants = {
        "ENDPOINT": hub.url,
        "HUGGINGFACE_CO_URL_TEMPLATE": hub.url + "/{repo_id}/resolve/{revision}/{filename}",
        "HF_HUB_CACHE": str(cache),
        "HF_HUB_DISABLE_XET": True,
        "DOWNLOAD_CHUNK_SIZE": CHUNK,  # the default is 10 MB
    }
    for name, value in constants.items():
        monkeypatch.setattr(f"huggingface_hub.constants.{name}", value)
    with running(hub):
        yield hub
