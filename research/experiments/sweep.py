"""The runner of all experiments.

An experiment is a grid of cells, the measure of a cell and a summary. A cell is a dictionary of settings,
such as tree and prompt; its row has these entries and the measured ones. The runner measures the cells that
the results file lacks and stores each row. Then it asks for the cells again, until none is lacking. A stopped
experiment therefore resumes, and the cells may depend on the rows so far. The summary is made from the rows.
"""

from __future__ import annotations

import os
import signal
import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from tqdm import tqdm

from research.estimates import Estimate, ratio
from research.experiments.phrases import MISSING, number, with_interval
from research.experiments.store import Record, Store
from specdec.commands import Parser, columns, ended, to_write, write_json


class Sweep(NamedTuple):
    """A grid of cells and their measure.

    header: the first line of the results file; a file with other settings or another pair is refused.
    key: the fields whose values distinguish the cells. cells: all cells, in order, as far as the rows so far
    determine them. measure: yields the row of each given cell as soon as it is measured.
    """

    header: Record
    key: tuple[str, ...]
    cells: Callable[[Sequence[Record]], Sequence[Record]]
    measure: Callable[[Sequence[Record]], Iterator[Record]]

    def complete(self, store: Store, quiet: bool = False) -> None:
        """Measures cells until none is lacking.

        ValueError if the file belongs to another header, or if another experiment writes to it.
        """
        with store.writing():
            store.begin(self.header)
            while lacking := self._lacking(store.read()[1]):
                rows = self.measure(lacking)
                for row in tqdm(rows, total=len(lacking), unit="run", mininterval=1, disable=quiet):
                    store.append(row)

    def _lacking(self, rows: Sequence[Record]) -> list[Record]:
        done = {key_of(row, self.key) for row in rows}
        cells = {key_of(cell, self.key): cell for cell in self.cells(rows)}
        return [cell for key, cell in cells.items() if key not in done]


@dataclass(frozen=True, kw_only=True)
class Experiment(ABC):
    """A sweep and the summary of its rows; the command is `python -m research.NAME`.

    about: one sentence for `--help`.
    """

    name: str
    about: str

    @abstractmethod
    def sweep(self, options: Any) -> Sweep:
        """The sweep that the options describe. It loads the models."""

    @abstractmethod
    def summarize(self, header: Record, rows: Sequence[Record]) -> Record:
        """The results as plain data. An unfinished experiment counts only the rows that all points have."""

    def parser(self) -> Parser:
        """The options of the command."""
        parser = Parser(prog=f"python -m research.{self.name}", description=self.about)
        add, results = parser.add_argument, Path(self.name.rpartition(".")[2] + ".jsonl")
        add("--results", type=Path, default=results, help="JSON lines, to which runs are appended")
        alone = "the file for the summary; without FILE, print the summary of --results and run nothing"
        add("--summary", type=to_write, nargs="?", const=False, metavar="FILE", help=alone)
        add("--smoke", action="store_true", help="run every stage in a minute; the numbers mean nothing")
        return parser

    def command(self, arguments: Sequence[str] | None = None) -> None:
        """Measures unless only a summary is asked for, then prints the summary and writes it."""
        options = self.parser().parse_args(arguments)
        if options.summary is not False:
            self.run(options)
        self.report(options.results, options.summary or None)

    def run(self, options: Any) -> None:
        """Measures the cells that the results file lacks. KeyboardInterrupt says how to continue."""
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", 1)))
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl+C; schedulers send it
        store = Store(options.results)
        try:
            sweep = self.sweep(options)
            _announce(store, sweep.header)
            sweep.complete(store)
        except KeyboardInterrupt:
            kept = f"the {len(store.read()[1]):,} finished runs in {store.path} are kept"
            raise KeyboardInterrupt(f"stopped: {kept}; give the same command to continue") from None

    def report(self, results: Path, written: Path | None) -> None:
        """Prints the summary of a results file, and writes it to a file if one is named."""
        header, rows = Store(results).read()
        if header is None:
            raise ValueError(f"no results in {results}; run the experiment first, or give --results")
        summary = self.summarize(header, rows)
        print(self.as_text(summary))
        if written:
            write_json(written, summary)

    def as_text(self, summary: Record) -> str:
        """All lists of results in a summary, as tables."""
        return "\n\n".join(_tables(summary, ""))

    def main(self) -> None:
        """`command`, which ends in one line after a user's mistake."""
        with ended():
            self.command()


def _announce(store: Store, header: Record) -> None:
    """Prints to stderr how many runs a results file has, and which versions have changed since its start."""
    begun, rows = store.read()
    if begun is None:
        return
    print(f"{store.path} has {len(rows):,} finished runs, which are not done again", file=sys.stderr)
    for name in ("machine", "versions"):
        for key, value in header.get(name, {}).items():
            before = begun.get(name, {}).get(key)
            if key != "date" and before != value:
                print(f"note: the file was begun with {key} {before}; now it is {value}", file=sys.stderr)


def _tables(value: Any, name: str) -> Iterator[str]:
    """A table of each list of rows in a summary, titled by the keys that lead to it."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _tables(item, f"{name}, {key}" if name else key)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        rows = [dict(_cells(row, "")) for row in value]
        heads = list(dict.fromkeys(key for row in rows for key in row))
        lines = [[row.get(key, MISSING) for key in heads] for row in rows]
        yield f"{name}\n{columns([heads, *lines])}"


def _cells(row: Record, before: str) -> Iterator[tuple[str, str]]:
    """The entries of a row by name, numbers with their intervals. Lists are left out."""
    for key, value in row.items():
        name = before + key
        if isinstance(value, dict):
            yield from [(name, with_interval(value))] if "value" in value else _cells(value, f"{name} ")
        elif not isinstance(value, list):
            yield name, number(value) if isinstance(value, float) else str(value)


def key_of(row: Record, fields: Iterable[str]) -> tuple[Any, ...]:
    """The values of these fields."""
    return tuple(row[name] for name in fields)


def grouped(rows: Iterable[Record], *fields: str) -> dict[tuple[Any, ...], list[Record]]:
    """Rows by the values of some fields, in the order of the first row of each group."""
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for row in rows:
        groups.setdefault(key_of(row, fields), []).append(row)
    return groups


def finished(rows: Sequence[Record], *fields: str) -> list[Record]:
    """The rows that every point has. fields: those that distinguish the rows of one point."""
    counts = Counter(key_of(row, fields) for row in rows)
    most = max(counts.values(), default=0)
    return [row for row in rows if counts[key_of(row, fields)] == most]


def quotient(rows: Iterable[Record], above: str, below: str, cluster: str = "prompt") -> Estimate:
    """Σ above / Σ below over rows; rows of one cluster depend on each other. Σ below is above 0."""
    estimate = ratio(
        {
            key: (sum(row[above] for row in some), sum(row[below] for row in some))
            for (key,), some in grouped(rows, cluster).items()
        }
    )
    assert estimate is not None, f"the sum of {below} is 0"
    return estimate
