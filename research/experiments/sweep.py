"""The runner of all experiments: it does the runs that a results file lacks, and summarises the file.

A run is a dictionary. Its first entries are those of its cell, such as tree and prompt, which no other run
has; the others were measured.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from tqdm import tqdm

from research.estimates import Estimate, ratio
from research.experiments.store import Record, Store
from specdec.commands import Parser, columns, ended, to_write, write_json

Job = TypeVar("Job")
Rows = Sequence[Sequence[str]]
"""A table: its first row is the head."""


@dataclass(frozen=True, kw_only=True)
class Experiment(ABC):
    """A row of the experiments. Its command is `python -m research.experiments.NAME`.

    about: one sentence for `--help`. tables: the summary for a terminal.
    """

    name: str
    about: str
    tables: Callable[[Record], Sequence[Rows]]

    @abstractmethod
    def run(self, options: Any, store: Store) -> None:
        """Does the runs that the results file lacks."""

    @abstractmethod
    def summarize(self, header: Record, runs: Sequence[Record]) -> Record:
        """The results as plain data. An unfinished experiment counts only the runs that all points have."""

    def parser(self) -> Parser:
        """The options of the command."""
        parser = Parser(prog=f"python -m research.experiments.{self.name}", description=self.about)
        add, results = parser.add_argument, Path(f"{self.name}.jsonl")
        add("--results", type=Path, default=results, help="JSON lines, to which runs are appended")
        add("--summary", type=to_write, help="the file for the summary")
        add("--smoke", action="store_true", help="run every stage in seconds; the numbers mean nothing")
        return parser

    def command(self, arguments: Sequence[str] | None = None) -> None:
        """Measures, then prints the summary and writes it."""
        options = self.parser().parse_args(arguments)
        torch.set_num_threads(1)
        store = Store(options.results)
        self.run(options, store)
        header, runs = store.read()
        assert header is not None, "a summary of no results"
        summary = self.summarize(header, runs)
        print(self.as_text(summary))
        if options.summary:
            write_json(options.summary, summary)

    def as_text(self, summary: Record) -> str:
        """The tables of a summary."""
        return "\n\n".join(map(columns, self.tables(summary)))

    def main(self) -> None:
        """`command`, whose mistakes end in one line."""
        with ended():
            self.command()


def complete(
    store: Store,
    header: Record,
    missing: Callable[[Sequence[Record]], Sequence[Job]],
    measure: Callable[[Sequence[Job]], Iterable[Record]],
    quiet: bool = False,
) -> None:
    """Does runs until none is missing, and stores each when it is done.

    missing: from the finished runs, the jobs to do next. ValueError if the file belongs to another header, or
    if another experiment writes to it.
    """
    with store.writing():
        store.begin(header)
        while jobs := missing(store.read()[1]):
            bar = tqdm(total=len(jobs), unit="run", mininterval=1, dynamic_ncols=True, disable=quiet)
            with bar:
                for record in measure(jobs):
                    store.append(record)
                    bar.update()


def lacking(cells: Sequence[Record]) -> Callable[[Sequence[Record]], list[Record]]:
    """The `missing` of `complete` where all cells are known from the start."""

    def missing(runs: Sequence[Record]) -> list[Record]:
        done = {key_of(run, cells[0] if cells else ()) for run in runs}
        return [cell for cell in cells if key_of(cell, cell) not in done]

    return missing


def key_of(run: Record, fields: Iterable[str]) -> tuple[Any, ...]:
    """The values of these fields."""
    return tuple(run[name] for name in fields)


def grouped(runs: Iterable[Record], *fields: str) -> dict[tuple[Any, ...], list[Record]]:
    """Runs by the values of some fields, in the order in which these come first."""
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for run in runs:
        groups.setdefault(key_of(run, fields), []).append(run)
    return groups


def finished(runs: Sequence[Record], *fields: str) -> list[Record]:
    """The runs that every point has done. fields: the values that distinguish the runs of one point."""
    counts = Counter(key_of(run, fields) for run in runs)
    most = max(counts.values(), default=0)
    return [run for run in runs if counts[key_of(run, fields)] == most]


def quotient(runs: Iterable[Record], above: str, below: str, cluster: str = "prompt") -> Estimate:
    """Σ above / Σ below over runs; runs of one cluster depend on each other. Σ below is above 0."""
    sums = {
        key: (sum(run[above] for run in some), sum(run[below] for run in some))
        for (key,), some in grouped(runs, cluster).items()
    }
    estimate = ratio(sums)
    assert estimate is not None, f"the sum of {below} is 0"
    return estimate
