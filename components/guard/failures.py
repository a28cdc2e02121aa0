"""Failures in the server's log: one short line each.

A visitor can cause failures at will, so a traceback for each would fill the log. The log level DEBUG adds
the tracebacks.
"""

from __future__ import annotations

import logging
import sys
import traceback
from contextvars import ContextVar
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gradio.queueing

_LONGEST = 200
"""Characters of a line."""
_logged: ContextVar[bool] = ContextVar("logged", default=False)


def brief(error: BaseException) -> str:
    """An error in one line of ASCII, with the place that raised it."""
    place = traceback.extract_tb(error.__traceback__)[-1:]
    where = "".join(f" at {Path(frame.filename).name}:{frame.lineno}" for frame in place)
    text = f"{type(error).__name__}: {' '.join(str(error).split())}"
    # A log can't be written with half a character in it.
    return ascii(text[: _LONGEST - len(where)])[1:-1][: _LONGEST - len(where)] + where


def shorten_gradios() -> None:
    """Let Gradio's queue log a failed event in one line instead of a traceback."""
    queueing: Any = gradio.queueing
    queueing.traceback = SimpleNamespace(print_exc=_tell)


def _tell() -> None:
    _logged.set(True)
    error = sys.exc_info()[1]
    log = logging.getLogger(__name__)
    log.error("%s", brief(error) if error else "an event failed")
    log.debug("The event's traceback:", exc_info=True)


def logged() -> bool:
    """Whether the running event has added a line to the log since the last call."""
    has_logged = _logged.get()
    _logged.set(False)
    return has_logged
