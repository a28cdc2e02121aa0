"""Loading another pair for the whole server, on a thread of its own, while the present pair goes on.

at rest --begin--> loading --> ready        the pair of the server is another one now
                      |  '---> failed       it is the old one; the message says why
                    cancel --> cancelled    as well; what was fetched stays in the cache
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from components.runs import capacity, feed, lazy, run
from components.runs.lazy import LazyPair
from components.server import memory
from specdec.pair import Pair


@dataclass(frozen=True)
class Choice:
    """A pair to load, with arguments as for `specdec.load_pair`. title: its name on the page."""

    title: str
    target: str | None = None
    draft: str | None = None
    device: str = "auto"
    dtype: str = "auto"
    shown: tuple[tuple[str, str], ...] = ()
    """Texts that messages must not show, such as folders of this machine, and their replacements."""


class Cancelled(Exception):  # noqa: N818 - a wish of the visitor, not an error
    """Raised within a load that was cancelled."""


class Loading:
    """The load of a pair for the server, and its progress. All methods may be called from any thread.

    pair: replaced when another pair is ready. load: as `specdec.load_pair`.
    """

    def __init__(self, pair: LazyPair, load: Callable[..., Any] | None = None):
        self._pair = pair
        self._load = load
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._cancelled = threading.Event()
        self._state: dict[str, Any] = {"status": "rest"}
        self._began = 0.0
        self._ticket = secrets.token_urlsafe(12)

    @property
    def active(self) -> bool:
        """Whether a pair is being loaded."""
        return self._thread is not None and self._thread.is_alive()

    def begin(self, choice: Choice) -> str:
        """Start to load this pair. Returns the ticket that can cancel it. ValueError if another load is in
        progress."""
        with self._lock:
            if self.active:
                raise ValueError(
                    f"{self._state['title']} is being loaded for this server; wait for it, or cancel it"
                )
            self._cancelled.clear()
            self._began = time.monotonic()
            before, self._state = self._state, {"status": "loading", "title": choice.title}
            self._thread = threading.Thread(target=self._run, args=(choice,), daemon=True)
            try:
                self._thread.start()
            except RuntimeError:
                self._state = before
                raise ValueError("The server has no thread left. Try again in a minute.") from None
            self._ticket = secrets.token_urlsafe(12)
            return self._ticket

    def begun_with(self, ticket: str) -> bool:
        """Whether this ticket belongs to the load in progress."""
        return secrets.compare_digest(ticket.encode(errors="replace"), self._ticket.encode())

    def cancel(self) -> None:
        """Cancel the load at its next progress report, which comes after each chunk of a download and each
        weight."""
        self._cancelled.set()

    def state(self) -> dict[str, Any]:
        """For the page: status (`rest`, `loading`, `cancelling`, `ready`, `failed`, `cancelled`), the title
        of what is or was loaded, stage, name, done and total of its progress, seconds, message, the models
        that are loaded now, and whether they chat."""
        state = dict(self._state)
        if state["status"] == "loading":
            state["seconds"] = time.monotonic() - self._began
            if self._cancelled.is_set():
                state["status"] = "cancelling"
        models = run.models(self._pair.load()) if self._pair.loaded else []
        return state | {"models": models, "chats": self._pair.chats}

    def join(self) -> None:
        """Wait until no load is in progress."""
        if self._thread is not None:
            self._thread.join()

    def _run(self, choice: Choice) -> None:
        try:
            self._pair.exchange(self._loaded(choice))
            capacity.measure(self._pair)
            ended: dict[str, Any] = {"status": "ready"}
        except Cancelled:
            ended = {"status": "cancelled"}
        except Exception as error:
            ended = {"status": "failed", "message": _message(error, choice)}
        memory.give_back()
        self._state = ended | {"title": choice.title, "seconds": time.monotonic() - self._began}

    def _loaded(self, choice: Choice) -> Pair:
        pair = (self._load or lazy.load)(
            choice.target,
            choice.draft,
            device=choice.device,
            dtype=choice.dtype,
            download=True,  # whoever begins a load has read its size
            report=self._report,
        )
        self._check()
        return pair

    def _report(self, progress: Any) -> None:
        self._check()
        self._state = self._state | progress._asdict()

    def _check(self) -> None:
        if self._cancelled.is_set():
            raise Cancelled


def _message(error: Exception, choice: Choice) -> str:
    message = feed.error_message(error)
    for hidden, shown in choice.shown:
        message = message.replace(hidden, shown)
    return message
