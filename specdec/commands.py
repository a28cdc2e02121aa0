"""Parts that all commands share: how they end, how they read options, and how they write files."""

from __future__ import annotations

import gc
import json
import os
import sys
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import Any, NoReturn

from specdec.coder import SIZE
from specdec.shipped import PAIRS


@contextmanager
def without_traceback() -> Iterator[None]:
    """A context in which a command and its imports end without a traceback in these cases.

    A user's mistake (ValueError), a file that can't be read or written, and a missing package print one line
    and give exit code 1. Ctrl+C gives exit code 130, after the message of the KeyboardInterrupt if it has
    one. If the reader of the output ends first, as `| head` does, the exit code is 0. Characters that the
    terminal does not know become "?". A closed standard stream counts as empty, and output to it is dropped.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - open to the end of the program
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    try:
        try:
            yield
        finally:
            print(end="", flush=True)  # flushed inside the try block, which catches a BrokenPipeError
    except BrokenPipeError:  # output that is still unwritten must not fail again when the process ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (ValueError, OSError, ImportError) as error:
        sys.exit(f"error: {_words(error)}")
    except KeyboardInterrupt as error:
        if error.args:
            print(error, file=sys.stderr)
        sys.exit(130)


@contextmanager
def without_collection() -> Iterator[None]:
    """A context for importing modules and loading models that a command needs until it ends.

    The garbage collector never searches the objects made inside for cycles, not even at the end of the
    process. These searches would take more than a second.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _words(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error)


class Parser(ArgumentParser):
    """An argument parser whose errors are ValueErrors, so that every mistake ends in the same way."""

    def error(self, message: str) -> NoReturn:
        """Raise a ValueError with the message of argparse."""
        raise ValueError(message)


def add_pair(parser: ArgumentParser, help: str = "hub id, folder or GGUF file") -> None:
    """Adds the options that `loading.load_with_progress` reads. help: the help of --target."""
    parser.add_argument("--pair", choices=PAIRS, help="the name of a pair, instead of --target")
    parser.add_argument("--download", action="store_true", help=f"let --pair coder download its {SIZE}")
    parser.add_argument("--target", help=help)
    parser.add_argument(
        "--draft",
        help="hub id, folder or GGUF file; by default this project's draft for the target, if it has one",
    )
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:1 (default: auto)")
    parser.add_argument(
        "--dtype",
        default="auto",
        help="auto, packed (the bits of a GGUF file, auto's choice on a CPU), int8 or int4 (rounded, on "
        "a CPU), float32, bfloat16 or float16 (default: auto)",
    )
    parser.add_argument(
        "--draft-dtype", help="dtype of the draft, by default the target's; int4 and int8 round its weights"
    )
    parser.add_argument("--draft-ids", type=int, help="the number of first token ids that the draft scores")


def to_write(text: str) -> Path:
    """The path of a file to write when a command ends. ArgumentTypeError if it can't be written."""
    path = Path(text)
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise ArgumentTypeError(
            f"{text!r} can't be written: its folder is missing, or you may not write to it"
        )
    return path


def columns(rows: Sequence[Sequence[str]], markdown: bool = False) -> str:
    """Rows of cells as a table. The first column is aligned left, the others right.

    markdown: whether to write a Markdown table, whose head is the first row.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        [cell.rjust(width) if i else cell.ljust(width) for i, (cell, width) in enumerate(zip(row, widths))]
        for row in rows
    ]
    if not markdown:
        return "\n".join("  ".join(cells).rstrip() for cells in lines)
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def write_json(path: Path, value: Any) -> None:
    """Write a result as JSON, with one line for each entry of its two outer levels.

    So each measurement in a list has its own line, and a changed measurement changes only this line.
    """
    path.write_text(spread(value) + "\n", encoding="utf-8")


def spread(value: Any, levels: int = 2, indent: str = "") -> str:
    """The text that `write_json` writes. levels: how many outer levels have one line for each entry."""
    if not levels or not value or not isinstance(value, (dict, list, tuple)):
        return json.dumps(value, ensure_ascii=False)
    deeper = indent + " "
    if isinstance(value, dict):
        entries = [f"{json.dumps(str(k))}: {spread(v, levels - 1, deeper)}" for k, v in value.items()]
    else:
        entries = [spread(item, levels - 1, deeper) for item in value]
    first, last = "{}" if isinstance(value, dict) else "[]"
    return f"{first}\n{deeper}" + f",\n{deeper}".join(entries) + f"\n{indent}{last}"
