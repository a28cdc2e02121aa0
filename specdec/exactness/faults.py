"""Verifiers that are broken on purpose, so that checks of exactness can show that they notice a fault.

Each takes the place of a method's verifier and makes one mistake; drafting, evaluation and bookkeeping are
the real ones. A fault is used only if it is asked for by name: `specdec.stream` and `specdec.generate` always
verify correctly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from specdec.methods import Drafted, Residual, Verdict, Verifier, ersd, gsd, spectr, traversal
from specdec.race import Node, PositionNoise, Race, Stream, log_exponentials, race_of, uniform
from specdec.trace import Method

LogProbs = Sequence[Tensor]
UNCUT = 0.8
"""The part of q that a cut leaves, in the fault that reports q as it was before the cut."""


@dataclass(frozen=True)
class Fault:
    """One mistake in verification.

    method: whose verification it breaks. verifier: does it. siblings: it acts only where a node has two or
    more children. length: tokens that must be looked at together to see it.
    """

    name: str
    method: Method
    verifier: Verifier
    siblings: bool = False
    length: int = 1


class _Noise:
    """The noise of a round, of which a fault changes a part."""

    def __init__(self, noise: PositionNoise):
        self.real = noise

    def race(self, node: Node) -> Race:
        return self.real.race(node)

    def test(self, node: Node, child_index: int) -> float:
        return self.real.test(node, child_index)

    def last(self, node: Node) -> Any:
        return self.real.last(node)


# ---------------------------------------------------------------- GSD


class KeptTarget(Residual):
    """After a rejection the target's distribution stays P instead of becoming the residual."""

    def subtract_draft(self, more: bool, weight: float) -> float:
        """Nothing."""
        return 0.0


class KeptDraft(Residual):
    """After a rejection the rejected token stays in q."""

    def remove_from_draft(self, token_id: int) -> None:
        """Nothing."""


def kept_target(drafted: Drafted, log_p: LogProbs, noise: PositionNoise) -> Verdict:
    """See `KeptTarget`."""
    return gsd.one_by_one(drafted, log_p, noise, KeptTarget)


def kept_draft(drafted: Drafted, log_p: LogProbs, noise: PositionNoise) -> Verdict:
    """See `KeptDraft`."""
    return gsd.one_by_one(drafted, log_p, noise, KeptDraft)


def shared_uniform(drafted: Drafted, log_p: LogProbs, noise: PositionNoise) -> Verdict:
    """All children of a node are tested with one uniform."""

    class Shared(_Noise):
        def test(self, node: Node, child_index: int) -> float:
            return self.real.test(node, 0)

    return gsd.verify(drafted, log_p, Shared(noise))


def uniform_from_race(drafted: Drafted, log_p: LogProbs, noise: PositionNoise) -> Verdict:
    """The tests' uniforms come from the race that chose the draft."""

    class FromRace(_Noise):
        def test(self, node: Node, child_index: int) -> float:
            return uniform(self.real.seed, self.real.position + len(node), child_index, Stream.RACE)

    return gsd.verify(drafted, log_p, FromRace(noise))


def residual_from_race(drafted: Drafted, log_p: LogProbs, noise: PositionNoise) -> Verdict:
    """The residual is sampled with the race that chose the draft."""

    class FromRace(_Noise):
        def last(self, node: Node) -> Any:
            return self.real.race(node)

    class Raced(Residual):
        def sample(self, u: Any) -> int:
            return u.winner(torch.cat([*self.weights]).log() if self.weights else self.log_p)

    return gsd.one_by_one(drafted, log_p, FromRace(noise), Raced)


def after_a_cut(drafted: Drafted, log_p: LogProbs, noise: PositionNoise) -> Verdict:
    """q is reported as it was before a cut that left `UNCUT` of it: p / q is too large."""
    reported = [None if q is None else q + math.log(UNCUT) for q in drafted.log_q]
    return gsd.verify(drafted._replace(log_q=reported), log_p, noise)


def own_sample(drafted: Drafted, log_p: LogProbs, noise: PositionNoise) -> Verdict:
    """The acceptance test takes the p of a sample of the target's own, not of the drafted token."""
    topology, token_ids, _, _ = drafted
    swapped = []
    for row, log_row in enumerate(log_p):
        children = torch.tensor([token_ids[child] for child in topology.children[row]], dtype=torch.long)
        token_id = _other_race(noise, len(topology.path(row)), len(log_row)).winner(log_row)
        swapped.append(log_row.index_fill(0, children, float(log_row[token_id])))
    return gsd.verify(drafted, swapped, noise)


# ---------------------------------------------------------------- ERSD


def race_under_draft(drafted: Drafted, log_p: LogProbs, noise: PositionNoise) -> Verdict:
    """ERSD races under Q where it should race under P: so the draft always wins."""
    raced = [q if q is not None else log_p[row] for row, q in enumerate(drafted.log_q)]
    return ersd.verify(drafted, raced, noise)


def one_race(drafted: Drafted, log_p: LogProbs, noise: PositionNoise) -> Verdict:
    """ERSD races at every position of a round on the exponentials of the first."""

    class First(_Noise):
        def race(self, node: Node) -> Race:
            return self.real.race(())

    return ersd.verify(drafted, log_p, First(noise))


def new_race(drafted: Drafted, log_p: LogProbs, noise: PositionNoise) -> Verdict:
    """ERSD whose correction is a new sample of P instead of the winner, which was not drafted."""
    verdict = ersd.verify(drafted, log_p, noise)
    if verdict.kind != "correction":
        return verdict
    log_row = log_p[(0, *verdict.rows)[-1]]
    other = _other_race(noise, len(verdict.rows), len(log_row))
    return verdict._replace(token_id=other.winner(log_row))


def _other_race(noise: PositionNoise, depth: int, vocab_size: int) -> Race:
    """Exponentials that are not those of the position."""
    position = noise.position + depth
    return race_of(log_exponentials(noise.seed, [position], vocab_size, stream=Stream.RESIDUAL)[0])


# ---------------------------------------------------------------- rules of others


def one_test(drafted: Drafted, log_p: LogProbs, noise: PositionNoise) -> Verdict:
    """Traversal verification that tests all leaves of a round with one uniform."""

    class One(_Noise):
        def test(self, node: Node, child_index: int) -> float:
            return self.real.test((), 0)

    return traversal.verify(drafted, log_p, One(noise))


def uncapped_end(drafted: Drafted, log_p: LogProbs, noise: PositionNoise) -> Verdict:
    """Traversal verification whose weights are capped on the path; leaves have p / q of all their path."""
    return traversal.leaves_first(_UncappedEnds(drafted, log_p), noise)


class _UncappedEnds(traversal.Remaining):
    def next_child(self, node: traversal.Node) -> traversal.Node:
        child = super().next_child(node)
        if not self.drafted.topology.children[child.row]:
            ratios = [each.p / each.q for each in (*self.path[1:], child) if each.q > 0]
            child.weight = min(math.prod(ratios), 1.0)
        return child


def lost_draft(drafted: Drafted, log_p: LogProbs, noise: PositionNoise) -> Verdict:
    """SpecInfer's rule takes rejected tokens out of q, as if its draws were without replacement."""
    return gsd.one_by_one(drafted, log_p, noise, Residual)


def no_threshold(drafted: Drafted, log_p: LogProbs, noise: PositionNoise) -> Verdict:
    """k-SEQ whose threshold is 1, as for a single draw, for any number of draws."""
    return spectr.verify(drafted, log_p, noise, threshold=lambda p, q, n: 1.0)


FAULTS = {
    fault.name: fault
    for fault in (
        Fault("kept-target", "gsd", kept_target),
        Fault("kept-draft", "gsd", kept_draft, siblings=True),
        Fault("shared-uniform", "gsd", shared_uniform, siblings=True),
        Fault("uniform-from-race", "gsd", uniform_from_race),
        Fault("residual-from-race", "gsd", residual_from_race),
        Fault("after-a-cut", "gsd", after_a_cut),
        Fault("own-sample", "gsd", own_sample),
        Fault("race-under-draft", "ersd", race_under_draft),
        Fault("new-race", "ersd", new_race),
        Fault("one-race", "ersd", one_race, length=2),
        Fault("one-test", "traversal", one_test),
        Fault("uncapped-end", "traversal", uncapped_end, length=2),
        Fault("lost-draft", "specinfer", lost_draft, siblings=True),
        Fault("no-threshold", "spectr", no_threshold, siblings=True),
    )
}
"""All faults by name."""
