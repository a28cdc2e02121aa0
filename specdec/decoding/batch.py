"""Decodes many runs at once: one target forward scores the trees of all runs, and drafts grow level by level.

    batch = Batch(pair)
    run = batch.add(stream(pair, "Once upon a time", method="ersd", seed=0))
    while batch:
        for progress in batch.step():
            print(progress.run.seed, progress.round.text)

A step gives each run one round, or a piece of its prompt. Runs join and leave between steps, and no run waits
for the longest. A run writes the same text as alone, because its noise is keyed by its seed and its
positions. This is exact in float32; in other dtypes it holds as far as the logits are equal.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from specdec.checks import whole
from specdec.decoding.engine import Engine
from specdec.decoding.run import Run, stream
from specdec.devices import one_thread
from specdec.models.batching import Answer, answers
from specdec.models.requests import Request
from specdec.trace import Generation, Round

if TYPE_CHECKING:
    from specdec.pair import ModelPair

PIECE = 64
"""Most tokens of a prompt that one step takes in beside other runs."""
LONE_PIECE = 256
"""The same of a run that is alone: a run that joins waits for at most one such piece."""
PIECES = 128
"""Most prompt tokens of all runs in one step; the rest waits, so that rounds are not delayed."""

_Work = Generator[Request | Round, Tensor | None, None]


class Progress(NamedTuple):
    """The result of a step for one run: its new round, or the error that made it leave the batch."""

    run: Run
    round: Round | None
    error: Exception | None = None

    @property
    def ended(self) -> bool:
        """Whether the run has ended and left the batch."""
        return self.round is None or self.round.finish is not None


class Batch:
    """Runs of one pair that are advanced together.

    Models without a lean forward answer one run after the other, which is correct but no faster than turns. A
    batch must not be used by several threads at once.
    """

    def __init__(self, pair: ModelPair):
        self.pair = pair
        self._seats: dict[Run, _Seat] = {}

    def __len__(self) -> int:
        """Number of runs that have not ended."""
        return len(self._seats)

    def __contains__(self, run: Run) -> bool:
        """Whether this run is in the batch and has not ended."""
        return run in self._seats

    def add(self, run: Run) -> Run:
        """Adds a run that has not begun. It joins the next step.

        ValueError if the run belongs to another pair or has begun.
        """
        if run.pair is not self.pair:
            raise ValueError(f"the run is one of {run.pair}, the batch one of {self.pair}")
        self._seats[run] = _Seat(run, self._piece)
        return run

    def remove(self, run: Run) -> None:
        """Removes a run and frees its caches; its record stays. ValueError if it is not in the batch."""
        if self._seats.pop(run, None) is None:
            raise ValueError("the run is not in this batch: it has ended, or was never added")

    @torch.inference_mode()
    @one_thread()
    def step(self, runs: Collection[Run] | None = None) -> list[Progress]:
        """Gives each run a round or a piece of its prompt. Returns the new rounds and errors, in order.

        runs: the runs to advance, all by default. A run that ends or fails leaves the batch; the others go
        on.
        """
        waiting = self._called(self._seats if runs is None else runs)
        for seat in waiting:
            seat.resume()
        while drafting := [seat for seat in waiting if seat.drafts]:
            _answer(drafting)
        _answer(waiting)
        results = [seat.progress for seat in waiting if seat.progress is not None]
        for progress in results:
            if progress.ended:
                del self._seats[progress.run]
        return results

    def _piece(self) -> int:
        return PIECE if len(self) > 1 else LONE_PIECE

    def _called(self, runs: Collection[Run]) -> list[_Seat]:
        """The seats of a step: all runs past their prompt, and others while the prompt pieces fit."""
        called, room = [], PIECES
        for seat in self._seats.values():
            if seat.run in runs and (room > 0 or not seat.ahead):
                called.append(seat)
                room -= min(seat.ahead, PIECE)
        return called


class _Seat:
    """One run in a batch.

    piece: function that gives the maximum tokens of the next piece of the prompt.
    request: the request whose answer the run waits for.
    progress: the result of the last step.
    """

    def __init__(self, run: Run, piece: Callable[[], int]):
        self.run, self.engine = run, run.begin()
        self.request: Request | None = None
        self.progress: Progress | None = None
        self._work = _work(self.engine, piece)

    @property
    def ahead(self) -> int:
        """Number of prompt tokens before the first round."""
        return 0 if self.run.rounds else len(self.run.prompt_ids) - 1 - self.engine.target.length

    @property
    def drafts(self) -> bool:
        """Whether the run waits for its draft model."""
        return self.request is not None and self.request.session is not self.engine.target

    def resume(self) -> None:
        """Advances the run to its next request, unless it waits for an answer already."""
        self.progress = None
        if self.request is None:
            self.take(None)

    def take(self, answer: Answer) -> None:
        """Passes this answer to the run, which goes on to its next request or to the end of the round."""
        try:
            reached = _resumed(self._work, answer)
        except Exception as error:
            self.request, self.progress = None, Progress(self.run, None, error)
            return
        self.request = reached if isinstance(reached, Request) else None
        if isinstance(reached, Round):
            self.run.prefill_seconds = self.engine.prefill_seconds
            self.run.rounds.append(reached)
            self.progress = Progress(self.run, reached)


def _work(engine: Engine, piece: Callable[[], int]) -> _Work:
    """A whole run as a generator of its requests and its rounds."""
    # a model without this ability takes its prompt whole or token by token
    yield from engine.prefilling(None if engine.pair.target.capability == "ar" else piece)
    finish, number = None, 0
    while finish is None:
        round = yield from engine.decoding(number)
        finish, number = round.finish, number + 1
        yield round


def _resumed(work: _Work, answer: Answer) -> Request | Round:
    if isinstance(answer, Exception):
        return work.throw(answer)
    return work.send(answer)


def _answer(seats: Sequence[_Seat]) -> None:
    waiting = [(seat, seat.request) for seat in seats if seat.request is not None]
    for (seat, _), answer in zip(waiting, answers([request for _, request in waiting]), strict=True):
        seat.take(answer)


def generate_many(
    pair: ModelPair,
    prompts: Sequence[str | Sequence[int]],
    *,
    seeds: Sequence[int] | None = None,
    at_once: int | None = None,
    detail: bool = False,
    **settings: Any,
) -> list[Generation]:
    """Decodes after all prompts together: the texts of `generate`, in the order of the prompts.

    settings: those of `stream`; each is one value for all runs, or a list with a value for each.
    seeds: one for each run; None draws them.
    at_once: maximum number of runs decoded together, all by default. Others join when a run ends. ValueError
    as in `stream`, or if a list differs in length from `prompts`. An error of one run ends all.
    """
    if isinstance(prompts, str) or not isinstance(prompts, Iterable):
        raise ValueError(f"prompts = {prompts!r:.60} is no list of prompts")
    prompts = list(prompts)
    most = len(prompts) if at_once is None else whole("at_once", at_once, 1)
    several = {name: _each(name, value, len(prompts)) for name, value in settings.items()}
    if seeds is not None and not isinstance(seeds, Iterable):
        raise ValueError(f"seeds = {seeds!r:.60} is no list of seeds, one for each prompt")
    several["seed"] = _each("seeds", None if seeds is None else list(seeds), len(prompts))
    each = [{name: values[number] for name, values in several.items()} for number in range(len(prompts))]
    beside = max(1, min(most, len(prompts)))
    runs = [
        stream(pair, prompt, detail=detail, at_once=beside, **own)
        for prompt, own in zip(prompts, each, strict=True)
    ]
    deque(ended(pair, runs, most), maxlen=0)
    return [run.generation for run in runs]


def ended(pair: ModelPair, runs: Iterable[Run], at_once: int) -> Iterator[Run]:
    """Decodes runs that have not begun, at most `at_once` together, and yields each when it has ended.

    An error of one run ends all.
    """
    batch, waiting = Batch(pair), iter(runs)
    while True:
        for run in islice(waiting, at_once - len(batch)):
            batch.add(run)
        if not batch:
            return
        for progress in batch.step():
            if progress.error is not None:
                raise progress.error
            if progress.ended:
                yield progress.run


def _each(name: str, value: Any, count: int) -> list[Any]:
    """A list with one value for each run."""
    if not isinstance(value, list | tuple):
        return [value] * count
    if len(value) != count:
        raise ValueError(
            f"{name} has {len(value)} values for {count} prompts: give one for each, or one for all"
        )
    return list(value)
