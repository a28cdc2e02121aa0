"""What commands share: how they end, and the files that they are to write."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentTypeError
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path


@contextmanager
def ended() -> Iterator[None]:
    """Within, a command ends without a traceback, while it still imports too.

    A user's mistake (ValueError, a file that can't be had) is one line and exit code 1, Ctrl+C 130 with the
    words of the KeyboardInterrupt, a reader that goes away, as `| head` does, 0. Characters that the terminal
    does not know are written as ?.
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
    except (ValueError, OSError) as error:
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
