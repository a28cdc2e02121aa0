"""The one runner of all experiments.

An experiment is a grid of cells, the measure of a cell and a summary. A cell is a dictionary of settings,
such as tree and prompt; its row has these entries and the measured ones. The runner measures the cells that
the results file lacks, stores each row, and asks for the cells again until none is lacking. A stopped
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
from research.experiments.store import Record, Store
from specdec.commands import Parser, columns, ended, to_write, write_json

Rows = Sequence[Sequence[str]]
"""A table: its first row is the head."""


class Sweep(NamedTuple):
    """A grid of cells and their measure.

    header: the first line of the results file; a file with other settings or another pair is refused.
    key: the fields that no two cells share. cells: all cells, in order, as far as the rows so far determine
    them. measure: the rows of some cells, each as soon as it is measured.
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
                bar = tqdm(total=len(lacking), unit="run", mininterval=1, dynamic_ncols=True, disable=quiet)
                with bar:
                    for row in self.measure(lacking):
                        store.append(row)
                        bar.update()

    def _lacking(self, rows: Sequence[Record]) -> list[Record]:
        done = {key_of(row, self.key) for row in rows}
        cells = {key_of(cell, self.key): cell for cell in self.cells(rows)}
        return [cell for key, cell in cells.items() if key not in done]


@dataclass(frozen=True, kw_only=True)
class Experiment(ABC):
    """A sweep and the summary of its rows; the command is `python -m research.NAME`.

    about: one sentence for `--help`. tables: the summary for a terminal.
    """

    name: str
    about: str
    tables: Callable[[Record], Sequence[Rows]]

    @abstractmethod
    def sweep(self, options: Any) -> Sweep:
        """What the options ask for; models are loaded."""

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
        # a job that a scheduler ends by SIGTERM says how to go on, too
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        store = Store(options.results)
        try:
            sweep = self.sweep(options)
            _announce(store, sweep.header)
            sweep.complete(store)
        except KeyboardInterrupt:
            kept = f"the {len(store.read()[1]):,} finished runs in {store.path} are kept"
            raise KeyboardInterrupt(f"stopped: {kept}; give the same command to go on with them") from None

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
        """The tables of a summary."""
        return "\n\n".join(map(columns, self.tables(summary)))

    def main(self) -> None:
        """`command`, whose mistakes end in one line."""
        with ended():
            self.command()


def _announce(store: Store, header: Record) -> None:
    """Says on stderr how much a results file holds, and which versions have changed since it was begun."""
    begun, rows = store.read()
    if begun is None:
        return
    print(f"{store.path} has {len(rows):,} finished runs, which are not done again", file=sys.stderr)
    for name in ("machine", "versions"):
        for key, value in header.get(name, {}).items():
            before = begun.get(name, {}).get(key)
            if key != "date" and before != value:
                print(f"note: it was begun with {key} {before}, and goes on with {value}", file=sys.stderr)


def key_of(row: Record, fields: Iterable[str]) -> tuple[Any, ...]:
    """The values of these fields."""
    return tuple(row[name] for name in fields)


def grouped(rows: Iterable[Record], *fields: str) -> dict[tuple[Any, ...], list[Record]]:
    """Rows by the values of some fields, in the order in which these come first."""
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for row in rows:
        groups.setdefault(key_of(row, fields), []).append(row)
    return groups


def finished(rows: Sequence[Record], *fields: str) -> list[Record]:
    """The rows that every point has. fields: the values that distinguish the rows of one point."""
    counts = Counter(key_of(row, fields) for row in rows)
    most = max(counts.values(), default=0)
    return [row for row in rows if counts[key_of(row, fields)] == most]


def quotient(rows: Iterable[Record], above: str, below: str, cluster: str = "prompt") -> Estimate:
    """Σ above / Σ below over rows; rows of one cluster depend on each other. Σ below is above 0."""
    sums = {
        key: (sum(row[above] for row in some), sum(row[below] for row in some))
        for (key,), some in grouped(rows, cluster).items()
    }
    estimate = ratio(sums)
    assert estimate is not None, f"the sum of {below} is 0"
    return estimate
