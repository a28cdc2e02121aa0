"""The time of one forward pass of the target over 1, 2, 4, 8 and 16 rows, measured on the loaded pair.

A row is a token. All rows share one reading of the weights, so checking several drafted tokens can cost
little more than generating one. Lesson 0 shows recorded times (`record_forwards`), and a button measures them
again. The measurement takes turns with visitors' runs. In each turn it times every number of rows once.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator

import torch

from components.runs import feed, seats, zero_gpu
from components.runs.lazy import present, use_threads
from components.visitors import limits
from specdec.models import Model
from specdec.pair import Pair

ROWS = (1, 2, 4, 8, 16)
PROMPT = "Once upon a time, there was a little girl named Lily."
PREFIX = 32
"""Number of tokens before the rows."""
PASSES = 40
"""Number of timed passes of a visitor's measurement. One pass before them is not counted."""


class Forwards:
    """Times of one model's forward passes after a prefix. Row i follows row i - 1, like drafts in a sequence.

    prompt_ids: repeated until they fill `PREFIX` tokens. ValueError if the model can't score several rows at
    once, or if its context is too short for them.
    """

    def __init__(self, model: Model, prompt_ids: list[int], rows: tuple[int, ...] = ROWS):
        if model.capability == "ar" and max(rows) > 1:
            raise ValueError(
                f"{model.name} scores only one token per forward pass, so there are no rows to measure"
            )
        self.model = model
        self._ids = [prompt_ids[i % len(prompt_ids)] for i in range(PREFIX + max(rows))]
        self._session = model.session()
        self._session.prefill(self._ids[:PREFIX])
        self._seconds: dict[int, list[float]] = {count: [] for count in rows}
        self.one_pass()
        for seconds in self._seconds.values():  # the first pass of each size may compile code or load memory
            seconds.clear()

    def one_pass(self) -> None:
        """Time one forward over each number of rows."""
        for count, seconds in self._seconds.items():
            ids = torch.tensor(self._ids[PREFIX : PREFIX + count])
            start = self._now()
            self._session.forward(ids, range(-1, count - 1))
            seconds.append(self._now() - start)
            self._session.commit([])

    def fastest(self) -> list[list[float]]:
        """[rows, milliseconds] of the fastest pass. Other work on the machine only makes passes slower."""
        return [[count, round(1000 * min(seconds), 4)] for count, seconds in self._seconds.items()]

    def _now(self) -> float:
        if self.model.device.type == "cuda":
            torch.cuda.synchronize(self.model.device)
        return time.perf_counter()


@feed.ending_in_words
def updates(pair: Pair, visitor: seats.Visitor = seats.NOBODY) -> Iterator[str]:
    """One measurement for this visitor as JSON updates: places in line, then "done" with `rows` as
    `Forwards.fastest`, or "error" with a message."""
    if zero_gpu.here():
        raise ValueError("the shared GPU is for runs only, so the recorded times stay")
    with seats.CHECKS.seat(visitor) as seat:
        yield from map(feed.waits, seat.wait())
        model = present(pair).target
        forwards, passes = seat.do(_steps(pair, seat)).wait()
        yield feed.update("done", rows=forwards.fastest(), passes=passes, model=model.name)


def _steps(pair: Pair, seat: seats.Seat) -> Generator[None, None, tuple[Forwards, int]]:
    """Do one pass per step, until there are enough passes or the time is over. Returns the times and the
    number of passes."""
    use_threads(pair)
    forwards = Forwards(present(pair).target, pair.encode(PROMPT))
    yield
    end = seat.worked + limits.current().forward_seconds
    done = 0
    while done == 0 or (done < PASSES and seat.worked < end):
        use_threads(pair)
        forwards.one_pass()
        done += 1
        yield
    return forwards, done
