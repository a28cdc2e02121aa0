"""What commands share: how they end, and the files that they write."""

from __future__ import annotations

import json
import os
import sys
from argparse import ArgumentTypeError
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import Any


@contextmanager
def ended() -> Iterator[None]:
    """Within, a command ends without a traceback, while it still imports too.

    A user's mistake (ValueError), a file that can't be read or written and a missing package are
    one line and exit code 1. Ctrl+C is exit code 130, with the words of the KeyboardInterrupt. A reader that
    goes away, as `| head` does, is exit code 0. Characters that the terminal does not know become ?.
    """
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    try:
        try:
            yield
        finally:
            print(end="", flush=True)  # here, where a reader that is gone can be caught
    except BrokenPipeError:  # what is left unwritten must not fail again at the end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (ValueError, OSError, ImportError) as error:
        sys.exit(f"error: {_words(error)}")
    except KeyboardInterrupt as error:
        if error.args:
            print(error, file=sys.stderr)
        sys.exit(130)


def _words(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def to_write(text: str) -> Path:
    """A path of an option whose file is written at the end, refused at the start where that can't be."""
    path = Path(text)
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise ArgumentTypeError(f"{text!r} can't be written: is its folder there, and yours to write?")
    return path


def write_json(path: Path, value: Any) -> None:
    """Write a result as JSON, with one line for each entry of the two outer levels.

    A list of measurements is then as long as it has measurements, and a change of one is a change of a line.
    """
    path.write_text(_spread(value, 2) + "\n", encoding="utf-8")


def _spread(value: Any, levels: int, indent: str = "") -> str:
    if not levels or not value or not isinstance(value, (dict, list, tuple)):
        return json.dumps(value, ensure_ascii=False)
    deeper = indent + " "
    if isinstance(value, dict):
        entries = [f"{json.dumps(str(k))}: {_spread(v, levels - 1, deeper)}" for k, v in value.items()]
    else:
        entries = [_spread(item, levels - 1, deeper) for item in value]
    first, last = "{}" if isinstance(value, dict) else "[]"
    return f"{first}\n{deeper}" + f",\n{deeper}".join(entries) + f"\n{indent}{last}"
