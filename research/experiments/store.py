"""The results file: JSON lines, first a header and then one line for each finished run, only ever appended.

A line is complete when it ends in a newline. An incomplete last line, which a stopped process left, is
ignored and removed before the next line is written, so that no run is lost or doubled. Only one experiment
writes to a file at a time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

Record = dict[str, Any]


class Store:
    """The results file of one experiment."""

    def __init__(self, path: Path):
        self.path = path

    def read(self) -> tuple[Record | None, list[Record]]:
        """The header (None for a new file) and the runs. ValueError names a line that is not a record."""
        whole = self.path.read_bytes() if self.path.exists() else b""
        records = []
        for number, line in enumerate(whole[: whole.rfind(b"\n") + 1].splitlines(), start=1):
            try:
                records.append(json.loads(line))
            except ValueError:
                raise ValueError(
                    f"{self.path}, line {number}: not a JSON object; is this a results file?"
                ) from None
        if not records:
            return None, []
        header = records[0]
        if not isinstance(header, dict) or not all(
            isinstance(header.get(name), dict) for name in ("settings", "pair")
        ):
            raise ValueError(f"{self.path}, line 1: not the header of an experiment; give another file")
        return header, records[1:]

    def begin(self, header: Record) -> None:
        """Writes the header, or checks that of a continued file. ValueError if its settings differ."""
        earlier, _ = self.read()
        if earlier is None:
            self.append(header)
            return
        for name in ("settings", "pair"):
            for key, ours in header[name].items():
                theirs = earlier[name].get(key)
                if theirs != ours:
                    raise ValueError(
                        f"{self.path} was begun with {name} {key} = {theirs!r}, not {ours!r}: "
                        "use that, or another results file"
                    )

    def append(self, record: Record) -> None:
        """Adds one line, whole or not at all. ValueError if it can't be written, as on a full disk."""
        line = json.dumps(record, separators=(",", ":")) + "\n"
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a+b") as file:
                size = file.seek(0, 2)
                file.seek(max(0, size - 1))
                if file.read() not in (b"", b"\n"):  # an incomplete last line
                    file.seek(0)
                    file.truncate(file.read().rfind(b"\n") + 1)
                file.write(line.encode())
        except OSError as error:
            raise ValueError(
                f"{self.path} could not be written: {error.strerror}. The runs in it are kept: make room, "
                "then give the same command to continue"
            ) from error

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Locks the file for this experiment. ValueError if another experiment holds it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(f"{self.path}.lock", timeout=0):
                yield
        except Timeout:
            raise ValueError(
                f"another experiment is writing to {self.path}; wait, or use another file"
            ) from None
