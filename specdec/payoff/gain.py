"""The gain from drafting in a set-up, the values at which it breaks even, and its limits.

The speed of the best tree is computed again without each limit: with a draft that is always right, a draft
without cost, rows of the target without cost, or no work outside the two models. The most important limit is
the one whose halving gains most.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import astuple, replace
from operator import itemgetter
from typing import NamedTuple

from specdec.decoding.costs import JointCost, Overhead
from specdec.decoding.fastest import SIZES, chosen
from specdec.payoff.setups import MOST_DRAFTED, SHAPES, SetUp, changed, scaled, with_first
from specdec.trace import Candidate

ERROR = 0.02
"""The smallest gain that counts. A smaller gain is within the error of a measurement."""
_STEPS = 9
"""The number of halvings in the search for a break-even point."""
_DEAREST = 4.0
"""The search for the slowest draft that still pays ends at this time of a draft step, in multiples of a
target call."""


class Point(NamedTuple):
    """The best tree of k drafted tokens: its expected tokens per call, and its speed relative to plain
    decoding."""

    k: int
    tokens_per_call: float
    speed_up: float


class Payoff(NamedTuple):
    """The gain of the best tree relative to plain decoding, and its limits.

    drafted: size of the best tree. tokens_per_call: expected tokens per call of each text. curve: the best
    tree of each k. halved, without: by the name of a limit, the speed-up if the limit is halved or removed.
    least_acceptance: the acceptance of the first drafted token at which drafting breaks even. dearest_draft:
    the time of a draft step, in target calls, at which drafting breaks even. Both are None if it never does.
    """

    speed_up: float
    drafted: int
    tokens_per_call: float
    curve: tuple[Point, ...]
    halved: dict[str, float]
    without: dict[str, float]
    least_acceptance: float | None
    dearest_draft: float | None

    @classmethod
    def of(cls, setup: SetUp) -> Payoff:
        """Computes the gain in a set-up, and its limits."""
        candidates = _candidates(setup)
        plain = candidates[0].tokens_per_second
        best = next(each for each in candidates if each.chosen)
        return cls(
            best.tokens_per_second / plain,
            len(best.paths),
            best.expected_tokens,
            tuple(
                Point(len(each.paths), each.expected_tokens, each.tokens_per_second / plain)
                for each in candidates
            ),
            {name: gain(eased(setup, 0.5)) for name, eased in LIMITS.items()},
            {name: gain(eased(setup, 0.0)) for name, eased in LIMITS.items()},
            _break_even(lambda first: changed(setup, acceptance=first), 1.0, 0.0),
            _break_even(lambda step: changed(setup, draft_step=step), 0.0, _DEAREST),
        )

    @property
    def pays(self) -> bool:
        """Whether drafting is faster than plain decoding, by more than the error of a measurement."""
        return self.speed_up >= 1 + ERROR

    def sentences(self) -> list[str]:
        """Three sentences: the gain and its main limit, the change that would help most, and the gain without
        the main limit."""
        limit, best = max(self.without.items(), key=itemgetter(1))
        help, helped = max(self.halved.items(), key=itemgetter(1))
        if self.pays:
            gain = (
                f"Drafting pays: {self.speed_up:.2f} times plain decoding with k = {self.drafted} and "
                f"{self.tokens_per_call:.2f} tokens per call"
            )
        else:
            gain = f"Drafting does not pay here: no tree is {1 + ERROR} times as fast as plain decoding"
        advice = f"Halving {help} would help most: {helped:.2f} times plain decoding."
        if helped < 1 + ERROR:
            advice = "Halving a single limit would not be enough to make drafting pay."
        elif helped < self.speed_up * (1 + ERROR):
            advice = "Halving a single limit would change little."
        if best < self.speed_up * (1 + ERROR):
            last = "No single limit makes a difference, only several of them together."
            if self.drafted == MOST_DRAFTED:
                last = f"Only the size of the largest tree, k = {MOST_DRAFTED}, limits the gain."
            return [f"{gain}.", advice, last]
        # a limit is not named if removing it speeds up plain decoding more than drafting
        more = {
            name: value for name, value in self.without.items() if value > self.speed_up and name != limit
        }
        further = "".join(f", without {name} {value:.2f}" for name, value in more.items())
        return [
            f"{gain}; the main limit is {limit}.",
            advice,
            f"Without {limit} drafting could reach {best:.2f} times plain decoding{further}.",
        ]


def gain(setup: SetUp) -> float:
    """The speed-up of the fastest tree; 1 if plain decoding is fastest."""
    rates = [each.tokens_per_second for each in _candidates(setup)]
    return max(rates) / rates[0]


def _candidates(setup: SetUp, sizes: Collection[int] = range(MOST_DRAFTED + 1)) -> tuple[Candidate, ...]:
    nodes = SHAPES[setup.shape](setup.acceptance)
    return chosen(setup.acceptance, setup.costs, setup.texts, sizes, nodes).candidates


def _break_even(with_value: Callable[[float], SetUp], easy: float, hard: float) -> float | None:
    """The break-even point between `easy` and `hard`: the value nearest to `hard` with which at least one
    tree is as fast as plain decoding.

    None if every tree is slower even with `easy`.
    """

    def pays(value: float) -> bool:
        plain, *drafting = (each.tokens_per_second for each in _candidates(with_value(value), SIZES))
        return max(drafting) >= plain

    if not pays(easy):
        return None
    for _ in range(_STEPS):
        middle = (easy + hard) / 2
        easy, hard = (middle, hard) if pays(middle) else (easy, middle)
    return easy


def _fewer_rejected(setup: SetUp, share: float) -> SetUp:
    first = 1 - share * (1 - setup.acceptance[0])
    return setup._replace(acceptance=with_first(setup.acceptance, first))


def _cheaper_draft(setup: SetUp, share: float) -> SetUp:
    costs = setup.costs
    overhead = replace(costs.overhead, level=share * costs.overhead.level)
    return setup._replace(costs=replace(costs, draft=scaled(costs.draft, share), overhead=overhead))


def _cheaper_rows(setup: SetUp, share: float) -> SetUp:
    """The set-up in which each row beyond the first row of a text costs only this share of its time."""
    texts, target = setup.texts, setup.costs.target
    one = target.seconds(texts, texts)
    table = {
        rows: one + share * (target.seconds(texts, rows * texts) - one) for rows in range(1, MOST_DRAFTED + 2)
    }
    return setup._replace(costs=replace(setup.costs, target=JointCost({texts: table})))


def _less_around(setup: SetUp, share: float) -> SetUp:
    overhead = Overhead(*(share * seconds for seconds in astuple(setup.costs.overhead)))
    return setup._replace(costs=replace(setup.costs, overhead=overhead))


LIMITS: dict[str, Callable[[SetUp, float], SetUp]] = {
    "the rejected drafts": _fewer_rejected,
    "the draft's time": _cheaper_draft,
    "the time of further rows": _cheaper_rows,
    "the work outside the two models": _less_around,
}
"""The possible limits of the gain, by name. Each is a function of a set-up and a share. It returns the set-up
in which only this share of the limit remains."""
