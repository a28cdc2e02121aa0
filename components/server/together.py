"""Seated runs, decoded together: a batch for each pair of models, advanced by one thread.

    beginnings    run  run      run               each in a thread of its own, a turn for each step (`ahead`)
                   |    |        |
    this thread    '----'- step -'- step - step - ...    a turn of the model for each step
                           a b      a b c  b c           a round, or a piece of a prompt, for each run

Runs join and leave between two steps. Runs of several addresses do not hold each other up: of an address
with many, a few are in each step while there are others. An error ends the run that it belongs to. Where a
step as a whole fails, its runs are decoded anew, each by itself: the same settings and seed give the same
rounds, and who fails then is told. A round's seconds are those that its visitor waited: the forwards are
shared, and what others do between them is part of it.

All runs of this process are decoded so; those of ZeroGPU, in a process of their own, take turns (`ahead`).
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from components.server import lazy, turns
from components.server.claims import Claim, Model, Share
from specdec import Round
from specdec.decoding.run import Run
from specdec.pair import ModelPair

if TYPE_CHECKING:
    from specdec.decoding.batch import Batch, Progress

THREAD = "rounds"
"""The name of the threads that decode."""
OF_ADDRESS = 4
"""Runs of one address in a step while there are others, or as many as the address with the fewest has. A step
of five takes about twice as long as one of a single run, as turns with one other would."""


class Told(Protocol):
    """Who is told what becomes of a run."""

    @property
    def stopped(self) -> bool:
        """Whether nobody wants any more."""

    def tell(self, round: Round) -> None:
        """The next round."""

    def end(self, error: BaseException | None = None) -> None:
        """There are no further ones; error: why."""


@dataclass(eq=False)
class _Member:
    """A run in a batch. count: rounds that were told. known: those that a run begun anew has to repeat."""

    share: Share
    run: Run
    told: Told
    batch: Batch
    known: list[Round] = field(default_factory=list)
    count: int = 0

    def take(self, round: Round) -> None:
        """The run's next round. RuntimeError where it is another one than was told."""
        if not self.known:
            self.count += 1
            self.told.tell(round)
        elif [token.id for token in self.known.pop(0).tokens] != [token.id for token in round.tokens]:
            raise RuntimeError("a run that was decoded anew gave another text")


class Together(Claim):
    """All runs of this process; they join from any thread, and one that ends with the last decodes."""

    def __init__(self, model: Model):
        super().__init__(model)
        self._lock = threading.Lock()
        self._joining: list[tuple[Share, Run, Told]] = []
        self._decoding = False
        # of the decoding thread alone
        self._members: list[_Member] = []
        self._open: dict[ModelPair, Batch] = {}
        self._advanced: tuple[_Member, ...] = ()
        self._last: Batch | None = None

    @property
    def shares(self) -> Sequence[Share]:
        """Whose runs the last step advanced."""
        return [member.share for member in self._advanced]

    def join(self, share: Share, run: Run, told: Told) -> None:
        """Decode a run that has not begun, from the next step on.

        RuntimeError where the system has no thread left; the next run that joins tries again.
        """
        with self._lock:
            self._joining.append((share, run, told))
            if self._decoding:
                return
            try:
                threading.Thread(target=self._decode, name=THREAD, daemon=True).start()
            except BaseException:
                self._joining.pop()
                raise
            self._decoding = True

    def _decode(self) -> None:
        try:
            for _ in self.turns(self._steps()):
                pass
        except BaseException as error:  # whoever waits for a round would wait for ever
            self._give_up(error)

    def _steps(self) -> Generator[bool, None, None]:
        """A step of a batch at a time, until there is no run any more."""
        while self._there():
            chosen = self._chosen()
            for batch in dict.fromkeys(member.batch for member in chosen):
                self._advanced = tuple(member for member in chosen if member.batch is batch)
                self._step(batch)
                yield True
        self._advanced = ()

    def _there(self) -> bool:
        """Let those join who wait for it, and those leave who have stopped; whether there is any run."""
        with self._lock:
            joining, self._joining = self._joining, []
        for share, run, told in joining:
            self._add(share, run, told)
        for member in [member for member in self._members if member.told.stopped]:
            self._leave(member)
        with self._lock:
            self._decoding = bool(self._members or self._joining)
            return self._decoding

    def _add(self, share: Share, run: Run, told: Told) -> None:
        if run.pair not in self._open:
            self._open[run.pair] = _batch(run.pair)
        self._enter(_Member(share, run, told, self._open[run.pair]))

    def _enter(self, member: _Member) -> None:
        try:
            member.batch.add(member.run)
        except Exception as error:
            if not member.batch:
                self._close(member.batch)
            member.told.end(error)
        else:
            self._members.append(member)

    def _leave(self, member: _Member, error: BaseException | None = None) -> None:
        """Let a run go, and whoever was told of it know why."""
        self._members.remove(member)
        if member.run in member.batch:
            member.batch.remove(member.run)
        if not member.batch:
            self._close(member.batch)
        member.told.end(error)

    def _close(self, batch: Batch) -> None:
        """Let nobody join this batch, and forget its pair, which may have been exchanged."""
        if self._open.get(batch.pair) is batch:
            del self._open[batch.pair]
        if self._last is batch:
            self._last = None

    def _chosen(self) -> list[_Member]:
        """Whose runs are in the next step, of an address those that have waited longest."""
        present = Counter(member.share.visitor.address for member in self._members)
        most = len(self._members) if len(present) < 2 else max(OF_ADDRESS, min(present.values()))
        had: Counter[str] = Counter()
        chosen: list[_Member] = []
        rest: list[_Member] = []
        for member in self._members:
            address = member.share.visitor.address
            had[address] += 1
            (chosen if had[address] <= most else rest).append(member)
        self._members = rest + chosen
        return chosen

    def _step(self, batch: Batch) -> None:
        """A step of those of this batch that were chosen."""
        if batch is not self._last:
            lazy.use_threads(batch.pair)
            self._last = batch
        advanced = {member.run: member for member in self._advanced}
        try:
            found = batch.step(advanced)
        except Exception as error:
            self._part(batch, error)
            return
        for progress in found:
            self._told(advanced[progress.run], progress)

    def _told(self, member: _Member, progress: Progress) -> None:
        error: Exception | None = progress.error
        try:
            if progress.round is not None:
                member.take(progress.round)
        except RuntimeError as other:
            error = other
        if progress.ended or error is not None:
            self._leave(member, error)

    def _part(self, batch: Batch, error: Exception) -> None:
        """A step failed as a whole: decode its runs anew, each by itself, to find out whose fault it is."""
        members = [member for member in self._members if member.batch is batch]
        if len(members) == 1:
            self._leave(members[0], error)
            return
        logging.error("a step of %d runs failed; each goes on by itself", len(members), exc_info=error)
        self._close(batch)
        for member in members:
            self._members.remove(member)
            self._enter(_anew(member))

    def _give_up(self, error: BaseException) -> None:
        with self._lock:
            self._decoding = False
            waiting, self._joining = [told for _, _, told in self._joining], []
        waiting += [member.told for member in self._members]
        self._members, self._open, self._advanced, self._last = [], {}, (), None
        for told in waiting:
            told.end(error)


def _anew(member: _Member) -> _Member:
    """The same run from its beginning, in a batch that nobody joins."""
    run = member.run
    same = Run(run.pair, run.prompt_ids, run.settings._replace(seed=run.seed), run.topology)
    # the failed step may have given a round that was not told
    known = run.rounds[: member.count]
    return _Member(member.share, same, member.told, _batch(run.pair), known, member.count)


def _batch(pair: ModelPair) -> Batch:
    from specdec.decoding.batch import Batch  # imports transformers, which the page does not wait for

    return Batch(pair)


RUNS = Together(turns.MODEL.model)
"""The runs of the page's visitors."""
