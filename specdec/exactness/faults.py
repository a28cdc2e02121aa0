"""Verifiers with deliberate mistakes. The exactness checks must notice each of them.

Each fault replaces a method's verifier by one with a single mistake. Drafting, evaluation and bookkeeping
stay those of the decoder. A fault is used only if it is requested by name: `specdec.stream` and
`specdec.generate` always verify correctly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from specdec.methods import Drafted, Residual, Verdict, Verifier, ersd, gsd, spectr, traversal
from specdec.race import Node, PositionNoise, Race, Stream, log_exponentials, race_of, uniform
from specdec.trace import Method

LogProbs = Sequence[Tensor]
UNCUT = 0.8
"""In `after_a_cut`: the probability under q of the tokens that a cut, such as top-k, keeps."""
COLD = 0.01
"""In `greedy_draft`: the draft's temperature, so low that it nearly always drafts its likeliest token."""
LEAST_LIKELY = 0.28
"""`thrown_away` drops drafted tokens whose q is smaller than this."""


@dataclass(frozen=True)
class Fault:
    """One deliberate mistake in verification.

    method: the method whose verification has the mistake. verifier: the verification with the mistake.
    siblings: whether only a node with two or more children shows the mistake. length: the number of
    successive tokens that a check must test together to detect the mistake. draft_temperature: the draft's
    own temperature, or None.
    """

    name: str
    method: Method
    verifier: Verifier
    siblings: bool = False
    length: int = 1
    draft_temperature: float | None = None


def _with_functions(noise: PositionNoise, **functions: Callable[..., Any]) -> Any:
    """The noise of a round, with its functions `race`, `test` or `last` replaced by those in `functions`."""
    return SimpleNamespace(**{"race": noise.race, "test": noise.test, "last": noise.last} | functions)


# ---------------------------------------------------------------- GSD


class KeptTarget(Residual):
    """After a rejection the target's distribution remains P. It should become the residual."""

    def subtract_draft(self, more: bool, weight: float) -> float:
        """Does nothing; it should subtract q from p."""
        return 0.0


class KeptDraft(Residual):
    """After a rejection q still contains the rejected token, which should be removed."""

    def remove_from_draft(self, token_id: int) -> None:
        """Does nothing; it should remove the token from q."""


def shared_uniform(drafted: Drafted, log_p: LogProbs, noise: PositionNoise) -> Verdict:
    """GSD tests all children of a node with the same uniform random number.

    Each child should have a number of its own.
    """
    return gsd.verify(drafted, log_p, _with_functions(noise, test=lambda node, _: noise.test(node, 0)))


def uniform_from_race(drafted: Drafted, log_p: LogProbs, noise: PositionNoise) -> Verdict:
    """GSD computes the random numbers of its tests from the race that drafted the tokens.

    These numbers should be independent of the race.
    """

    def test(node: Node, child_index: int) -> float:
        return uniform(noise.seed, noise.position + len(node), child_index, Stream.RACE)

    return gsd.verify(drafted, log_p, _with_functions(noise, test=test))


def residual_from_race(drafted: Drafted, log_p: LogProbs, noise: PositionNoise) -> Verdict:
    """GSD samples the residual with the random numbers of the race that drafted the tokens.

    GSD should use independent numbers.
    """

    class Raced(Residual):
        def sample(self, u: Any) -> int:
            if not self.weights:
                return u.winner(self.log_p)
            return u.winner(torch.from_numpy(np.concatenate(self.weights)).log())

    return gsd.one_by_one(drafted, log_p, _with_functions(noise, last=noise.race), Raced)


def after_a_cut(drafted: Drafted, log_p: LogProbs, noise: PositionNoise) -> Verdict:
    """The draft samples from q after a cut. But it reports q without dividing it by `UNCUT`, the kept mass.

    So the reported q is too small, and p / q is too large.
    """
    reported = [None if q is None else q + math.log(UNCUT) for q in drafted.log_q]
    return gsd.verify(drafted._replace(log_q=reported), log_p, noise)


def own_sample(drafted: Drafted, log_p: LogProbs, noise: PositionNoise) -> Verdict:
    """The acceptance test uses p of a token sampled from the target. It should use p of the drafted token."""
    topology, token_ids, _, *_ = drafted
    swapped = []
    for row, log_row in enumerate(log_p):
        children = torch.tensor([token_ids[child] for child in topology.children[row]], dtype=torch.long)
        token_id = _other_race(noise, len(topology.path(row)), len(log_row)).winner(log_row)
        swapped.append(log_row.index_fill(0, children, float(log_row[token_id])))
    return gsd.verify(drafted, swapped, noise)


def greedy_draft(drafted: Drafted, log_p: LogProbs, noise: PositionNoise) -> Verdict:
    """The draft takes its likeliest token, but reports q at temperature 1, as if it had sampled the token."""
    reported = [None if q is None else (q * COLD).log_softmax(-1) for q in drafted.log_q]
    return gsd.verify(drafted._replace(log_q=reported), log_p, noise)


def thrown_away(drafted: Drafted, log_p: LogProbs, noise: PositionNoise) -> Verdict:
    """A drafted token whose q is small is dropped, with its later siblings and all tokens below it.

    The mistake: whether a drawn token is verified depends on the token itself (docs/tree_choice.md). Dropping
    only the tokens after it would be right, because their verification would depend only on earlier draws.
    """
    topology, token_ids, log_q, *_ = drafted
    least = math.log(LEAST_LIKELY)
    offered: list[list[int]] = []
    for children, q in zip(topology.children, log_q, strict=True):
        likely = [q is None or float(q[token_ids[child]]) >= least for child in children]
        offered.append([*children[: [*likely, False].index(False)]])
    return gsd.verify(drafted._replace(draws=offered), log_p, noise)


# ---------------------------------------------------------------- ERSD


def race_under_draft(drafted: Drafted, log_p: LogProbs, noise: PositionNoise) -> Verdict:
    """ERSD races under Q instead of P, so the drafted token always wins."""
    raced = [q if q is not None else log_p[row] for row, q in enumerate(drafted.log_q)]
    return ersd.verify(drafted, raced, noise)


def one_race(drafted: Drafted, log_p: LogProbs, noise: PositionNoise) -> Verdict:
    """ERSD uses the exponentials of a round's first position at all positions of the round, not their own."""
    return ersd.verify(drafted, log_p, _with_functions(noise, race=lambda _: noise.race(())))


def new_race(drafted: Drafted, log_p: LogProbs, noise: PositionNoise) -> Verdict:
    """ERSD corrects with a new sample of P. The correction should be the winner of the race."""
    verdict = ersd.verify(drafted, log_p, noise)
    if verdict.kind != "correction":
        return verdict
    log_row = log_p[(0, *verdict.rows)[-1]]
    other = _other_race(noise, len(verdict.rows), len(log_row))
    return verdict._replace(token_id=other.winner(log_row))


def _other_race(noise: PositionNoise, depth: int, vocab_size: int) -> Race:
    """A race whose exponentials are not those of the position's own race."""
    position = noise.position + depth
    return race_of(log_exponentials(noise.seed, [position], vocab_size, stream=Stream.RESIDUAL)[0])


# ---------------------------------------------------------------- rules of other papers


def one_test(drafted: Drafted, log_p: LogProbs, noise: PositionNoise) -> Verdict:
    """Traversal verification tests all leaves of a round with the same uniform random number.

    Each test should have a number of its own.
    """
    return traversal.verify(drafted, log_p, _with_functions(noise, test=lambda *_: noise.test((), 0)))


def uncapped_end(drafted: Drafted, log_p: LogProbs, noise: PositionNoise) -> Verdict:
    """Traversal verification weighs a leaf by the product of p / q on its path, with uncapped inner nodes."""
    return traversal.leaves_first(_UncappedEnds(drafted, log_p), noise)


class _UncappedEnds(traversal.Remaining):
    def next_child(self, node: traversal.Node) -> traversal.Node:
        child = super().next_child(node)
        if not self.drafted.topology.children[child.row]:
            ratios = [each.p / each.q for each in (*self.path[1:], child) if each.q > 0]
            child.weight = min(math.prod(ratios), 1.0)
        return child


FAULTS = {
    fault.name: fault
    for fault in (
        Fault("kept-target", "gsd", partial(gsd.one_by_one, residual=KeptTarget)),
        Fault("kept-draft", "gsd", partial(gsd.one_by_one, residual=KeptDraft), siblings=True),
        Fault("shared-uniform", "gsd", shared_uniform, siblings=True),
        Fault("uniform-from-race", "gsd", uniform_from_race),
        Fault("residual-from-race", "gsd", residual_from_race),
        Fault("after-a-cut", "gsd", after_a_cut),
        Fault("own-sample", "gsd", own_sample),
        Fault("greedy-draft", "gsd", greedy_draft, draft_temperature=COLD),
        Fault("thrown-away", "gsd", thrown_away),
        Fault("race-under-draft", "ersd", race_under_draft),
        Fault("new-race", "ersd", new_race),
        Fault("one-race", "ersd", one_race, length=2),
        Fault("one-test", "traversal", one_test),
        Fault("uncapped-end", "traversal", uncapped_end, length=2),
        # rejected tokens are removed from q, although the draws are with replacement
        Fault("lost-draft", "specinfer", gsd.verify, siblings=True),
        # the threshold 1 is right only for a single draw
        Fault("no-threshold", "spectr", partial(spectr.verify, threshold=lambda *_: 1.0), siblings=True),
    )
}
"""All faults, by name."""
