"""Decodes many runs at once: each of the target's forward passes scores the trees of all runs.

    batch = Batch(pair)
    run = batch.add(stream(pair, "Once upon a time", method="ersd", seed=0))
    while batch:
        for member in batch.step():
            print(member.run.seed, member.round.text)

A step gives each run one round, or processes a piece of its prompt. Runs join and leave between steps, and no
run waits for the longest run. A run writes the same text as when it is decoded alone, because its noise is
keyed by its seed and its positions. With the compiled forward pass the texts are exactly equal; with torch's
they are equal as long as rounding does not change a decision.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

import torch

from specdec.checks import whole
from specdec.decoding.auto import AutoTrees
from specdec.decoding.run import Run, stream
from specdec.devices import one_thread
from specdec.models.requests import Request
from specdec.trace import Generation, Round

if TYPE_CHECKING:
    from specdec.decoding.costs import RoundTimes
    from specdec.decoding.engine import Engine
    from specdec.models.batching import Answer
    from specdec.pair import ModelPair

PIECE = 64
"""The most prompt tokens of one run that a step processes if the batch has other runs."""
LONE_PIECE = 256
"""The most prompt tokens that a step processes for a run that is alone in the batch. A run that joins waits
for at most one such step."""
PIECES = 128
"""The prompt tokens of all runs in a step: once they are this many, the step takes no further prompt, so that
rounds are not delayed."""

State = Literal["waiting", "running", "done", "failed"]
"""The states of a member. waiting: its prompt is not yet processed. running: its rounds are decoded. done:
its text has ended. failed: an error ended it."""


class Batch:
    """Runs of one pair that are decoded together, step by step.

    members: a `Member` for each run that has not ended. rows: for each run in the last step, the number of
    rows (tokens) that the target evaluated for it. times: the record of the times of rounds, from which
    "auto" estimates costs; None takes the pair's own.

    Models without a forward pass of this project (lean or compiled) answer one run after another: the texts
    are the same, but a batch saves no time. Only one thread may use a batch at a time.
    """

    def __init__(self, pair: ModelPair, times: RoundTimes | None = None):
        self.pair = pair
        self.members: dict[Run, Member] = {}
        self.rows: dict[Run, int] = {}
        self._trees = AutoTrees(pair, times)

    def __len__(self) -> int:
        """Number of runs that have not ended."""
        return len(self.members)

    def __contains__(self, run: Run) -> bool:
        """Whether this run is in the batch and has not ended."""
        return run in self.members

    def add(self, run: Run) -> Run:
        """Adds a run that has not begun, and returns it. Its first step is the batch's next step.

        ValueError if the run belongs to another pair or has begun.
        """
        if run.pair is not self.pair:
            raise ValueError(f"the run belongs to {run.pair}, the batch to {self.pair}")
        self.members[run] = Member(run, run.begin(self._trees), self._piece)
        return run

    def remove(self, run: Run) -> None:
        """Removes a run and frees its caches; its record stays. ValueError if it is not in the batch."""
        if self.members.pop(run, None) is None:
            raise ValueError("the run is not in this batch: it has ended, or was never added")

    @torch.inference_mode()
    @one_thread()
    def step(self, runs: Collection[Run] | None = None) -> list[Member]:
        """Give each run a round or a piece of its prompt. Returns the members with a new round or an error.

        runs: the runs to advance, all by default. A run that ends or fails leaves the batch; the others
        continue. If the step itself is interrupted, as by Ctrl+C, all its runs leave the batch, because a
        round that is half done can't go on; their records keep the rounds before it.
        """
        active = self._active(self.members if runs is None else runs)
        try:
            self._advance(active)
        except BaseException:
            for member in active:
                self.members.pop(member.run, None)
            raise
        for member in active:
            if member.ended:
                del self.members[member.run]
        return [member for member in active if member.round or member.error]

    def _advance(self, active: Sequence[Member]) -> None:
        # a run that waits for an answer is in the middle of a round, or of its prompt, and keeps its tree
        free = [member.run for member in active if member.request is None]
        for run, topology in self._trees.trees(free, len(active)).items():
            self.members[run].engine.follow(topology, self._trees.price(run))
        start = time.perf_counter()
        for member in active:
            member.resume()
        while drafting := [member for member in active if member.drafts]:
            _answer(drafting)
        drafted = time.perf_counter()
        self.rows = {each.run: len(each.request.token_ids) for each in active if each.request is not None}
        _answer(active)
        self._learn(active, drafted - start, time.perf_counter() - drafted)

    def _learn(self, active: Sequence[Member], draft: float, target: float) -> None:
        """Let "auto" learn from the rounds of a step, and from its times if no prompt was processed. draft,
        target: the seconds of the two models' forward passes."""
        rounds = {member.run: member.round for member in active if member.round is not None}
        self._trees.learn(rounds)
        if rounds and len(rounds) == len(active):
            own = sum(round.seconds.verify + round.seconds.rest for round in rounds.values())
            self._trees.learn_times(rounds.values(), draft, max(target - own, 0.0))

    def rows_ahead(self, run: Run) -> int:
        """The number of rows that this run's next step needs: those of the next piece of its prompt, or those
        of a round with its latest tree."""
        return min(self.members[run].ahead, PIECE) or 1 + run.latest_tree.num_draft_tokens

    def _piece(self) -> int:
        return PIECE if len(self) > 1 else LONE_PIECE

    def _active(self, runs: Collection[Run]) -> list[Member]:
        """The runs that take part in a step: all whose prompt is processed, and other runs until the pieces
        of their prompts have `PIECES` tokens together."""
        active, room = [], PIECES
        for member in self.members.values():
            if member.run in runs and (room > 0 or not member.ahead):
                active.append(member)
                room -= min(member.ahead, PIECE)
        return active


class Member:
    """One run in a batch, its state, and the result of its last step.

    piece: a function that returns the largest size of the next piece of the prompt. request: the forward pass
    whose result the run waits for. round, error: the result of the last step; None if it had none.
    """

    def __init__(self, run: Run, engine: Engine, piece: Callable[[], int]):
        self.run, self.engine = run, engine
        self.state: State = "waiting"
        self.request: Request | None = None
        self.round: Round | None = None
        self.error: Exception | None = None
        # a model that can only decode token by token gets its prompt in one piece
        self._work = engine.round(None if run.pair.target.capability == "ar" else piece)

    @property
    def ended(self) -> bool:
        """Whether the run has ended and left the batch."""
        return self.state in ("done", "failed")

    @property
    def ahead(self) -> int:
        """The number of prompt tokens that must still be processed before the first round."""
        waits = self.state == "waiting"
        return len(self.run.prompt_ids) - 1 - self.engine.target.length if waits else 0

    @property
    def drafts(self) -> bool:
        """Whether the run waits for a forward pass of its draft model."""
        return self.request is not None and self.request.session is not self.engine.target

    def resume(self) -> None:
        """Lets the run continue until it requests a forward pass. A run that waits for one does nothing."""
        self.round = None
        if self.request is None:
            self.take(None)

    def take(self, answer: Answer) -> None:
        """Gives the run the result of the forward pass that it requested, or the error.

        The run continues to its next request, or to the end of the round.
        """
        work, self.request = self._work, None
        try:
            self.request = work.throw(answer) if isinstance(answer, Exception) else work.send(answer)
        except StopIteration as end:
            self.round, self._work = end.value, self.engine.round()
            self.state = "running" if self.engine.finish is None else "done"
            self.run.prefill_seconds = self.engine.prefill_seconds
            self.run.rounds.append(end.value)
        except Exception as error:
            self.error, self.state = error, "failed"


def _answer(members: Sequence[Member]) -> None:
    waiting = [(member, member.request) for member in members if member.request is not None]
    from specdec.models.batching import answers  # this import waits for transformers

    for (member, _), answer in zip(waiting, answers([request for _, request in waiting]), strict=True):
        member.take(answer)


def generate_many(
    pair: ModelPair,
    prompts: Sequence[str | Sequence[int]],
    *,
    seeds: Sequence[int] | None = None,
    at_once: int | None = None,
    **settings: Any,
) -> list[Generation]:
    """Decodes the texts after all prompts together, each as `generate` does. Results are in prompt order.

    settings: those of `stream`, but without detail by default. Each is one value for all runs, or a list with
    one value for each run.
    seeds: one seed for each run, instead of `seed`; without either, seeds are drawn. at_once: the most runs
    decoded together, all by default; when a run ends, the next one begins. ValueError as in `stream`, or if a
    list differs in length from `prompts`. An error in one run ends all runs.
    """
    if isinstance(prompts, str) or not isinstance(prompts, Iterable):
        raise ValueError(f"prompts = {prompts!r:.60} is not a list of prompts")
    prompts = list(prompts)
    most = len(prompts) if at_once is None else min(whole("at_once", at_once, 1), len(prompts))
    if isinstance(seeds, str) or (seeds is not None and not isinstance(seeds, Iterable)):
        raise ValueError(f"seeds = {seeds!r:.60} is not a list of seeds, one for each prompt")
    settings = {"detail": False} | settings
    several = {name: _each(name, value, len(prompts)) for name, value in settings.items()}
    if seeds is not None and "seed" in settings:
        raise ValueError("seed and seeds are both given: give one of them")
    if seeds is not None:
        several["seed"] = _each("seeds", list(seeds), len(prompts))
    each = [{name: values[number] for name, values in several.items()} for number in range(len(prompts))]
    beside = max(1, most)
    runs = [stream(pair, prompt, at_once=beside, **own) for prompt, own in zip(prompts, each, strict=True)]
    deque(decode_together(pair, runs, most), maxlen=0)
    return [run.generation for run in runs]


def decode_together(pair: ModelPair, runs: Iterable[Run], at_once: int) -> Iterator[Run]:
    """Decodes runs that have not begun, at most `at_once` together, and yields each when it has ended.

    An error in one run ends all runs.
    """
    batch, waiting = Batch(pair), iter(runs)
    while True:
        for run in islice(waiting, at_once - len(batch)):
            batch.add(run)
        if not batch:
            return
        for member in batch.step():
            if member.error is not None:
                raise member.error
            if member.ended:
                yield member.run


def _each(name: str, value: Any, count: int) -> list[Any]:
    """A setting's value for each run, as a list."""
    if type(value) not in (list, tuple):
        return [value] * count
    if len(value) != count:
        raise ValueError(
            f"{name} has {len(value)} values for {count} prompts: give one for each prompt, or one for all"
        )
    return list(value)
