"""Loading another pair for the whole server, as a job beside the runs, while the present pair stays in use.

at rest --begin--> loading --> ready        the server uses the new pair
                      |  '---> failed       the old pair stays; the message says why
                    close --> cancelled     the old pair stays; downloaded files stay in the cache

A visitor who loads a pair receives the updates of the load. If the visitor stops them or closes the tab, the
load is cancelled.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from components.runs import capacity, feed, lazy, run
from components.runs.jobs import Closed, Job, State, beside
from components.runs.lazy import LazyPair
from components.server import memory
from specdec.pair import Pair

EVERY = 0.5
"""Seconds between two updates."""


@dataclass(frozen=True)
class Choice:
    """A pair to load, with arguments as for `specdec.load_pair`. title: its name on the page. name: its name
    in the page's list."""

    title: str
    target: str | None = None
    draft: str | None = None
    device: str = "auto"
    dtype: str = "auto"
    shown: tuple[tuple[str, str], ...] = ()
    """Texts that messages must not show, such as folders of this machine, with their replacements."""
    name: str = ""


class Loading:
    """The load of a pair for the server, and its progress. All methods may be called from any thread.

    pair: its models are replaced when another pair is ready. load: a function that loads a pair, by default
    `lazy.load`. name: the name of the current pair in the page's list; the attribute follows each load.
    """

    def __init__(self, pair: LazyPair, load: Callable[..., Pair] | None = None, name: str = ""):
        self.name = name
        self._pair = pair
        self._load = load
        self._lock = threading.Lock()
        self._job: Job | None = None
        self._choice = Choice("")
        self._start = self._end = 0.0

    def begin(self, choice: Choice) -> Job:
        """Start to load this pair.

        Closing the job cancels the load at its next report. Reports come after each chunk of a download and
        after each weight. ValueError if another load is in progress."""
        with self._lock:
            if self._job is not None and not self._job.ended:
                raise ValueError(
                    f"{self._choice.title} is being loaded for this server; wait for it, or cancel it"
                )
            self._job = beside(lambda report: self._exchanged(choice, report))
            self._choice, self._start = choice, time.monotonic()
            return self._job

    async def updates(self, choice: Choice) -> AsyncGenerator[dict[str, Any]]:
        """Load this pair for a visitor. Yields the state every `EVERY` seconds and at the end of the load.
        Closing the generator cancels the load."""
        with closing(self.begin(choice)) as job:
            while not job.ended:
                yield self.state()
                await asyncio.sleep(EVERY)
        yield self.state()

    def cancel(self) -> None:
        """Cancel the load in progress, if any."""
        if self._job is not None:
            self._job.close()

    def state(self) -> dict[str, Any]:
        """The state of the load for the page.

        It has the status (`rest`, `loading`, `cancelling`, `ready`, `failed`, `cancelled`), the title of the
        pair, the stage, name, done and total of its progress, the seconds, a message, the models that are
        loaded now, the name of their pair in the page's list, and whether they chat."""
        models = run.models(self._pair.load()) if self._pair.loaded else []
        return self._progress() | {"models": models, "pair": self.name, "chats": self._pair.chats}

    def _progress(self) -> dict[str, Any]:
        if (job := self._job) is None:
            return {"status": "rest"}
        title: dict[str, Any] = {"title": self._choice.title}
        if not job.ended:
            seconds = time.monotonic() - self._start
            reported = job.values[-1] if job.values else {}
            return (
                reported | title | {"status": "cancelling" if job.closed else "loading", "seconds": seconds}
            )
        title["seconds"] = self._end - self._start
        if job.state is State.FAILED:
            return title | {"status": "failed", "message": str(job.error)}
        return title | {"status": "ready" if job.result else "cancelled"}

    def _exchanged(self, choice: Choice, report: Callable[[Any], None]) -> bool:
        """Load a pair and replace the present one. Returns False if the load was cancelled. ValueError says
        why it failed."""
        message = ""
        try:
            self._replace(choice, report)
            is_ready = True
        except Closed:
            is_ready = False
        except Exception as error:
            message = _message(error, choice)
        memory.give_back()  # here no stack frame of a failed load holds its memory any more
        self._end = time.monotonic()
        if message:
            raise ValueError(message)
        return is_ready

    def _replace(self, choice: Choice, report: Callable[[Any], None]) -> None:
        pair = (self._load or lazy.load)(
            choice.target,
            choice.draft,
            device=choice.device,
            dtype=choice.dtype,
            download=True,  # the visitor has read the size before the load begins
            report=lambda progress: report(progress._asdict()),
        )
        report({"stage": "checking", "name": choice.title})
        self._pair.exchange(pair)
        self.name = choice.name
        capacity.measure(self._pair)


def _message(error: Exception, choice: Choice) -> str:
    message = feed.error_message(error)
    for private, public in choice.shown:
        message = message.replace(private, public)
    return message
