"""Verifiers that are broken on purpose, so that checks of exactness can show that they would notice.

Each is a function that takes the place of a method's `verify` and does one thing wrong; drafting,
evaluation and bookkeeping are the real ones. Only who asks for a fault by name gets one: `specdec.stream` and
`specdec.generate` always verify right.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from specdec.methods import (
    RULES,
    Drafted,
    Verdict,
    Verifier,
    verify_ersd,
    verify_gsd,
    verify_specinfer,
    verify_spectr,
    verify_traversal,
)
from specdec.methods.traversal import Node, Remaining, leaves_first
from specdec.methods.verdict import OwnNoise
from specdec.race import Noise, Stream, log_exponentials, uniform, winner
from specdec.topology import Topology
from specdec.trace import Method

LogProbs = Sequence[Tensor]
LEFT = 0.8
"""Of q, by a cut that it is reported without."""


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


def kept_target(drafted: Drafted, log_p: LogProbs, log_e: Noise, uniforms: OwnNoise) -> Verdict:
    """After a rejection the target's distribution stays P instead of becoming the residual."""
    rules = RULES._replace(residual=lambda left, log_p, log_q: (left.weights, left.sums))
    return verify_gsd(*_tree(drafted, log_p), uniforms.test, uniforms.last, rules)


def kept_draft(drafted: Drafted, log_p: LogProbs, log_e: Noise, uniforms: OwnNoise) -> Verdict:
    """After a rejection the rejected token stays in q."""
    rules = RULES._replace(log_rest=lambda left, log_q, token_ids: 0.0)
    return verify_gsd(*_tree(drafted, log_p), uniforms.test, uniforms.last, rules)


def shared_uniform(drafted: Drafted, log_p: LogProbs, log_e: Noise, uniforms: OwnNoise) -> Verdict:
    """All children of a node are tested with one uniform."""

    def test(depth: int, child_index: int) -> float:
        return uniforms.test(depth, 0)

    return verify_gsd(*_tree(drafted, log_p), test, uniforms.last)


def uniform_from_race(drafted: Drafted, log_p: LogProbs, log_e: Noise, uniforms: OwnNoise) -> Verdict:
    """The tests' uniforms come from the race that chose the draft."""

    def test(depth: int, child_index: int) -> float:
        return uniform(uniforms.seed, uniforms.position + depth, child_index, Stream.RACE)

    return verify_gsd(*_tree(drafted, log_p), test, uniforms.last)


def residual_from_race(drafted: Drafted, log_p: LogProbs, log_e: Noise, uniforms: OwnNoise) -> Verdict:
    """The residual is sampled with the race that chose the draft."""

    def sample(weights: Sequence[Tensor], sums: Sequence[float], race: Tensor) -> int:
        return int(winner(torch.cat([*weights]).log(), race))

    def race(depth: int) -> Any:
        return log_e[depth]

    return verify_gsd(*_tree(drafted, log_p), uniforms.test, race, RULES._replace(sample=sample))


def after_a_cut(drafted: Drafted, log_p: LogProbs, log_e: Noise, uniforms: OwnNoise) -> Verdict:
    """q is reported as it was before a cut that left `LEFT` of it: p / q is too large."""
    topology, token_ids, log_q, _ = drafted
    reported = [None if q is None else q + math.log(LEFT) for q in log_q]
    return verify_gsd(topology, token_ids, log_p, reported, uniforms.test, uniforms.last)


def own_sample(drafted: Drafted, log_p: LogProbs, log_e: Noise, uniforms: OwnNoise) -> Verdict:
    """The accept test takes the p of a sample of the target's own, not of the drafted token."""
    topology, token_ids, log_q, _ = drafted
    swapped = []
    for row, log_row in enumerate(log_p):
        position = uniforms.position + len(topology.path(row))
        log_own = log_exponentials(uniforms.seed, [position], len(log_row), stream=Stream.RESIDUAL)[0]
        children = [token_ids[child] for child in topology.children[row]]
        swapped.append(
            log_row.index_fill(
                0, torch.tensor(children, dtype=torch.long), float(log_row[winner(log_row, log_own)])
            )
        )
    return verify_gsd(topology, token_ids, swapped, log_q, uniforms.test, uniforms.last)


def race_under_draft(drafted: Drafted, log_p: LogProbs, log_e: Noise, uniforms: OwnNoise) -> Verdict:
    """ERSD races under Q where it should race under P: so the draft always wins."""
    raced = [q if q is not None else log_p[row] for row, q in enumerate(drafted.log_q)]
    return verify_ersd(drafted.topology, drafted.token_ids, raced, log_e)


def one_race(drafted: Drafted, log_p: LogProbs, log_e: Noise, uniforms: OwnNoise) -> Verdict:
    """ERSD races at every position of a round on the exponentials of the first."""
    first: Any = log_e[0]
    return verify_ersd(drafted.topology, drafted.token_ids, log_p, [first] * len(log_e))


def new_race(drafted: Drafted, log_p: LogProbs, log_e: Noise, uniforms: OwnNoise) -> Verdict:
    """ERSD whose correction is a new sample of P instead of the winner that nobody drafted."""
    verdict = verify_ersd(drafted.topology, drafted.token_ids, log_p, log_e)
    if verdict.kind != "correction":
        return verdict
    row, position = (0, *verdict.rows)[-1], uniforms.position + len(verdict.rows)
    log_new = log_exponentials(uniforms.seed, [position], len(log_p[row]), stream=Stream.RESIDUAL)[0]
    return verdict._replace(token_id=int(winner(log_p[row], log_new)))


def one_test(drafted: Drafted, log_p: LogProbs, log_e: Noise, uniforms: OwnNoise) -> Verdict:
    """Traversal verification that tests all leaves of a round with one uniform."""
    u, path = uniforms.node_test(()), drafted.topology.path
    return verify_traversal(*_tree(drafted, log_p), lambda row: u, lambda row: uniforms.node_last(path(row)))


def uncapped_end(drafted: Drafted, log_p: LogProbs, log_e: Noise, uniforms: OwnNoise) -> Verdict:
    """Traversal verification whose weights are capped on the way; leaves have p / q of all their path."""
    u, path = uniforms, drafted.topology.path
    ends = _UncappedEnds(*_tree(drafted, log_p))
    return leaves_first(ends, lambda row: u.node_test(path(row)), lambda row: u.node_last(path(row)))


class _UncappedEnds(Remaining):
    def _next_child(self, node: Node) -> Node:
        child = super()._next_child(node)
        if not self.topology.children[child.row]:
            ratios = [each.p / each.q for each in (*self.way[1:], child) if each.q > 0]
            child.weight = min(math.prod(ratios), 1.0)
        return child


def lost_draft(drafted: Drafted, log_p: LogProbs, log_e: Noise, uniforms: OwnNoise) -> Verdict:
    """SpecInfer's rule takes rejected tokens out of q, as if its draws were without replacement."""
    topology, token_ids, log_q, draws = drafted
    return verify_specinfer(topology, token_ids, draws, log_p, log_q, uniforms.test, uniforms.last, RULES)


def no_threshold(drafted: Drafted, log_p: LogProbs, log_e: Noise, uniforms: OwnNoise) -> Verdict:
    """k-SEQ whose threshold is 1, as for a single draw, however many there are."""
    topology, token_ids, log_q, draws = drafted
    return verify_spectr(
        topology, token_ids, draws, log_p, log_q, uniforms.test, uniforms.last, lambda p, q, n: 1.0
    )


def _tree(drafted: Drafted, log_p: LogProbs) -> tuple[Topology, list[int], LogProbs, Sequence[Tensor | None]]:
    """What `verify_gsd` and `verify_traversal` take of it."""
    return drafted.topology, drafted.token_ids, log_p, drafted.log_q


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
