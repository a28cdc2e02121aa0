"""The results file: JSON lines, first a header and then one line for each finished run, only ever appended.

A line is complete when it ends in a newline. An incomplete last line, which a stopped process left, is
ignored and removed before the next line is written, so that no run is lost or doubled. Only one experiment
writes to a file at a time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from filelock import FileLock, Timeout

Record = dict[str, Any]

KEY = ("method", "tree", "prompt", "repeat")
"""The fields that distinguish the runs of one experiment."""
_KEY_FIELDS = dict(zip(KEY, (str, str, int, int), strict=True))
_COUNTS = ("lengths", "offered", "reached", "accepted")
_RUN_FIELDS = _KEY_FIELDS | {"tokens": int, "rounds": int} | dict.fromkeys(_COUNTS, list)
_CONTEXT_FIELDS = _KEY_FIELDS | {"positions": int}


def check_runs(runs: Sequence[Record]) -> None:
    """ValueError names the first line of a results file that lacks a field or repeats an earlier run."""
    lines: dict[tuple[Any, ...], int] = {}
    for number, run in enumerate(runs, start=2):
        at = f"line {number}: "
        fields = _CONTEXT_FIELDS if run.get("method") == "contexts" else _RUN_FIELDS
        for name, kind in fields.items():
            value = run.get(name)
            if not isinstance(value, kind) or (isinstance(value, list) and {*map(type, value)} - {int}):
                shown = f"{name} = {value!r:.60}" if name in run else f"no {name!r}"
                raise ValueError(f"{at}{shown}: not the record of a run; take the line out")
        key = tuple(run[name] for name in KEY)
        if key in lines:
            raise ValueError(f"{at}the run of line {lines[key]} again; take one of them out")
        lines[key] = number


class Store:
    """The results file of one experiment."""

    def __init__(self, path: Path):
        self.path = path

    def read(self) -> tuple[Record | None, list[Record]]:
        """The header and the runs; the header of a new file is None.

        ValueError names a line that is no record.
        """
        if not self.path.exists():
            return None, []
        try:
            whole = self.path.read_bytes()
        except OSError as error:
            raise ValueError(f"{self.path} could not be read: {error.strerror}; give a file") from None
        lines = whole[: whole.rfind(b"\n") + 1].splitlines()
        records = [self._parsed(number, line) for number, line in enumerate(lines, start=1)]
        if not records:
            return None, []
        if "settings" not in records[0]:
            raise ValueError(f"{self.path}, line 1: not the header of an experiment; give another file")
        return records[0], records[1:]

    def _parsed(self, number: int, line: bytes) -> Record:
        try:
            record = json.loads(line)
        except ValueError:
            record = None
        if not isinstance(record, dict):
            raise ValueError(f"{self.path}, line {number}: not a JSON object; is this a results file?")
        return record

    def begin(self, header: Record) -> None:
        """Writes the header, or checks the header of a file that is continued.

        ValueError if its settings differ.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        earlier, _ = self.read()
        if earlier is None:
            self.append(header)
            return
        for name in ("settings", "pair"):
            self._check_same(name, earlier.get(name), header[name])

    def _check_same(self, name: str, earlier: Any, ours: Record) -> None:
        if not isinstance(earlier, dict):
            raise ValueError(f"{self.path}, line 1: no {name!r}; give another file")
        different = [key for key in ours if earlier.get(key) != ours[key]]
        if different:
            key = different[0]
            raise ValueError(
                f"{self.path} was begun with {name} {key} = {earlier.get(key)!r}, not {ours[key]!r}: "
                "use that, or another results file"
            )

    def append(self, record: Record) -> None:
        """Adds one line, whole or not at all. ValueError if it can't be written, as on a full disk."""
        line = json.dumps(record, separators=(",", ":")) + "\n"
        try:
            with self.path.open("a+b") as file:
                _cut_torn_line(file)
                file.write(line.encode())
        except OSError as error:
            raise ValueError(
                f"{self.path} could not be written: {error.strerror}. The runs in it are kept: make room, "
                "then give the same command to go on"
            ) from error

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Locks the file for this experiment. ValueError if another one holds it or it can't be written."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.open("ab").close()  # else the lock would seem to be taken
        except OSError as error:
            raise ValueError(f"{self.path} could not be written: {error.strerror}") from error
        lock = FileLock(f"{self.path}.lock", timeout=0)
        try:
            lock.acquire()
        except Timeout:
            raise ValueError(
                f"another experiment is writing to {self.path}; wait, or use another file"
            ) from None
        try:
            yield
        finally:
            lock.release()


def _cut_torn_line(file: BinaryIO) -> None:
    """Removes an incomplete last line."""
    size = file.seek(0, 2)
    if not size:
        return
    file.seek(size - 1)
    if file.read(1) != b"\n":
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)
