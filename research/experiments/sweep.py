"""The runner of all experiments.

An experiment has cells, a function that measures cells, and a summary. A cell is a dictionary of settings,
such as tree and prompt. Its measurement is a row: the cell's settings and the measured values. The runner
measures the cells whose rows the results file lacks, stores each row, and asks for the cells again until no
row is lacking. So a stopped experiment resumes, and cells may depend on the rows measured before.
"""

import json
import os
import signal
import sys
from abc import ABC, abstractmethod
from argparse import ArgumentDefaultsHelpFormatter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from filelock import FileLock, Timeout
from tqdm import tqdm

from research.estimates import Row, key_of
from specdec.commands import Parser, columns, to_write, without_traceback, write_json
from specdec.phrases import MISSING, number, with_interval


class Store:
    """The results file of one experiment: JSON lines, first a header and then a row for each finished run.

    A line is complete when it ends in a newline. A stopped process may leave an incomplete last line. It is
    ignored, and removed when the experiment continues.
    """

    def __init__(self, path: Path):
        self.path = path

    def read(self) -> tuple[Row | None, list[Row]]:
        """The header (None for a new file) and the rows. ValueError names a line that is no JSON object."""
        records: list[Any] = []
        for place, line in enumerate(self._lines().splitlines(), start=1):
            try:
                records.append(json.loads(line))
            except ValueError:
                message = f"{self.path}, line {place}: not a JSON object; is this a results file?"
                raise ValueError(message) from None
        header, *rows = records or [None]
        if records and not (isinstance(header, dict) and {"settings", "pair"} <= header.keys()):
            raise ValueError(f"{self.path}, line 1: not the header of an experiment; give another file")
        return header, rows

    def _lines(self) -> bytes:
        """The bytes of the file's complete lines."""
        data = self.path.read_bytes() if self.path.exists() else b""
        return data[: data.rfind(b"\n") + 1]

    @contextmanager
    def continued(self, header: Row) -> Iterator[None]:
        """Locks the file for an experiment with this header, and writes the header into a new file.

        ValueError if the file has other settings or another pair, or if another experiment has locked it.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(f"{self.path}.lock", timeout=0):
                earlier = self.read()[0] or header
                for name in ("settings", "pair"):
                    for key, ours in header[name].items():
                        if (theirs := earlier[name].get(key)) != ours:
                            raise ValueError(
                                f"{self.path} was begun with {name} {key} = {theirs!r}, not {ours!r}: "
                                "use that, or another results file"
                            )
                with self.path.open("ab") as file:
                    file.truncate(len(self._lines()))
                if earlier is header:
                    self.append(header)
                yield
        except Timeout:
            message = f"another experiment is writing to {self.path}; wait, or use another file"
            raise ValueError(message) from None

    def append(self, row: Row) -> None:
        """Adds a row as one line. ValueError if it can't be written, for example on a full disk."""
        try:
            with self.path.open("a") as file:
                file.write(json.dumps(row, separators=(",", ":")) + "\n")
        except OSError as error:
            raise ValueError(
                f"{self.path} could not be written: {error.strerror}. The runs in it are kept: make room, "
                "then give the same command to continue"
            ) from error


class Sweep(NamedTuple):
    """The cells of an experiment, and the function that measures them. `complete` runs it."""

    header: Row  # the first line of the results file; a file with other settings or another pair is refused
    cells: Callable[[Sequence[Row]], Sequence[Row]]  # all cells, in order, that follow from the rows so far
    measure: Callable[[Sequence[Row]], Iterator[Row]]  # yields the row of each given cell as it is measured

    def complete(self, store: Store, quiet: bool = False) -> None:
        """Measures cells until the file has a row for each of them.

        ValueError if the file has another header, or if another experiment is writing to it.
        """
        with store.continued(self.header):
            while lacking := self._lacking(store.read()[1]):
                rows = tqdm(self.measure(lacking), total=len(lacking), unit="run", disable=quiet)
                for row in rows:
                    store.append(row)

    def _lacking(self, rows: Sequence[Row]) -> list[Row]:
        cells = {tuple(cell.values()): cell for cell in self.cells(rows)}
        fields = next(iter(cells.values()), ())
        keys = {key_of(row, fields) for row in rows}
        return [cell for key, cell in cells.items() if key not in keys]


@dataclass(frozen=True, kw_only=True)
class Experiment(ABC):
    """An experiment, a sweep and a summary of its rows, as the command `python -m research.NAME`."""

    name: str
    about: str  # one sentence for `--help`
    options: Mapping[str, Row] = field(
        default_factory=dict
    )  # options in addition to the common ones: {name: arguments of `add_argument`}
    usual: Mapping[str, Any] = field(default_factory=dict)  # defaults that replace those in the options
    smoke: Mapping[str, Any] = field(default_factory=dict)  # the defaults with `--smoke`

    @abstractmethod
    def sweep(self, options: Any) -> Sweep:
        """The sweep that the options describe. This loads the models."""

    @abstractmethod
    def summarize(self, header: Row, rows: Sequence[Row]) -> Row:
        """The results as plain data. Of an unfinished experiment, only rows that all points have count."""

    def parser(self) -> Parser:
        """The options of the command."""
        parser = Parser(f"python -m research.{self.name}", description=self.about)
        parser.formatter_class = ArgumentDefaultsHelpFormatter
        add, results = parser.add_argument, Path(self.name.rpartition(".")[2] + ".jsonl")
        add("--results", type=Path, default=results, help="JSON lines, to which runs are appended")
        alone = "the file for the summary; without FILE, print the summary of --results and run nothing"
        add("--summary", type=to_write, nargs="?", const=False, metavar="FILE", help=alone)
        add("--smoke", action="store_true", help="run every stage in a minute; the numbers mean nothing")
        for name, entries in self.options.items():
            add(name, **entries)
        return parser

    def parsed(self, arguments: Sequence[str] | None = None) -> Any:
        """The parsed options, with the defaults of this experiment."""
        parser = self.parser()
        parser.set_defaults(**self.usual)
        if parser.parse_args(arguments).smoke:
            parser.set_defaults(**self.smoke)
        return parser.parse_args(arguments)

    def command(self, arguments: Sequence[str] | None = None) -> None:
        """Measures, prints the summary and writes it. With `--summary` alone, nothing is measured."""
        options = self.parsed(arguments)
        if options.summary is not False:
            self._run(options)
        self.report(options.results, options.summary or None)

    def _run(self, options: Any) -> None:
        """Measures the cells that the results file lacks. If interrupted, says how to continue."""
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", 1)))
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # schedulers send it; it acts like Ctrl+C
        store = Store(options.results)
        try:
            sweep = self.sweep(options)
            _announce(store, sweep.header)
            sweep.complete(store)
        except KeyboardInterrupt:
            note = f"the {len(store.read()[1]):,} finished runs in {store.path} are kept"
            raise KeyboardInterrupt(f"stopped: {note}; give the same command to continue") from None

    def report(self, results: Path, path: Path | None) -> None:
        """Prints the summary of a results file. Writes it too if `path` is given."""
        header, rows = Store(results).read()
        if header is None:
            raise ValueError(f"no results in {results}; run the experiment first, or give --results")
        summary = self.summarize(header, rows)
        print(self.as_text(summary))
        if path:
            write_json(path, summary)

    def as_text(self, summary: Row) -> str:
        """All lists of rows in a summary, as tables."""
        return "\n\n".join(_tables(summary, ""))

    def main(self) -> None:
        """Runs `command`. After a user's mistake, the process ends with a message of one line."""
        with without_traceback():
            self.command()


def _announce(store: Store, header: Row) -> None:
    """Prints to stderr how many runs a results file has, and which versions have changed since its start."""
    old_header, rows = store.read()
    if old_header is None:
        return
    print(f"{store.path} has {len(rows):,} finished runs, which are not done again", file=sys.stderr)
    for key, value in (header.get("machine", {}) | header.get("versions", {})).items():
        old_value = (old_header.get("machine", {}) | old_header.get("versions", {})).get(key)
        if key != "date" and old_value != value:
            print(f"note: the file was begun with {key} {old_value}; now it is {value}", file=sys.stderr)


def _tables(value: Any, name: str) -> Iterator[str]:
    """Yields a table for each list of rows in a summary, titled by the keys that lead to it."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _tables(item, f"{name}, {key}" if name else key)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        rows = [dict(_cells(row, "")) for row in value]
        heads = list(dict.fromkeys(key for row in rows for key in row))
        lines = [[row.get(key, MISSING) for key in heads] for row in rows]
        yield f"{name}\n{columns([heads, *lines])}"


def _cells(row: Row, prefix: str) -> Iterator[tuple[str, str]]:
    """Yields (name, text) of each entry of a row; numbers with their intervals. Lists are left out."""
    for key, value in row.items():
        name = prefix + key
        if isinstance(value, dict):
            yield from [(name, with_interval(value))] if "value" in value else _cells(value, f"{name} ")
        elif not isinstance(value, list):
            yield name, number(value) if isinstance(value, float) else str(value)
