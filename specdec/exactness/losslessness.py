"""The losslessness check compares many short decodes with the target's own distribution, by Pearson's χ².

    check = Check(pair, [0], method="gsd", topology=batch(2), length=2, seed=7)
    for _ in range(5000):
        check.decode()
    check.chi_square().p_value          # small only by chance, if the decoder is right

The check is for small models, because every continuation of `length` tokens is one outcome. A small p-value
is evidence against the decoder. A large p-value means that this number of decodes shows no difference.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from specdec.checks import whole
from specdec.decoding.engine import Engine
from specdec.decoding.run import stream
from specdec.decoding.trees import Trees
from specdec.exactness.faults import Fault
from specdec.models import Model
from specdec.probs import Sampling, log_probs
from specdec.race import derived_seed
from specdec.topology import Topology
from specdec.trace import Method, Round

if TYPE_CHECKING:
    from specdec.pair import ModelPair

Outcome = tuple[int, ...]

LEAST_EXPECTED = 5.0
"""Outcomes with a smaller expected count are pooled into one cell, because otherwise the statistic is not
distributed as χ²."""
MOST_OUTCOMES = 10_000


class ChiSquare(NamedTuple):
    """Pearson's statistic, its degrees of freedom and its p-value, as `chi_square` computes them.

    With too few decodes for a test, they are 0, 0 and 1.
    """

    statistic: float
    degrees_of_freedom: int
    p_value: float


class Check:
    """A check of one set-up. It decodes texts, each with its own seed, and counts their first tokens.

    topology: ignored by `ar`. length: how many first tokens of each decode form the outcome. fault: a
    verifier that is broken on purpose. A ValueError names an argument that does not fit.

    distribution: the target's probability of each outcome. counts: the number of decodes with each outcome.
    rounds: the number of target calls. tokens: the number of tokens that these calls emitted, including those
    after the first `length`. accepting: the number of rounds whose first token was drafted.
    """

    def __init__(
        self,
        pair: ModelPair,
        prompt_ids: Sequence[int],
        *,
        method: Method,
        topology: Topology,
        length: int,
        seed: int,
        fault: Fault | None = None,
    ):
        if fault is not None and fault.method != method:
            raise ValueError(f"fault = {fault.name!r} breaks {fault.method!r}, but the method is {method!r}")
        if pair.eos_ids:
            raise ValueError("this pair has tokens that end a text, so decodes differ in length")
        self.length = whole("length", length, 1)
        # enough room for new tokens that no tree is cut while the counted tokens are decoded
        room = self.length + topology.depth
        # this run is never started: creating it checks the arguments, and the decodes use its settings
        self.template = stream(
            pair,
            prompt_ids,
            method=method,
            topology=topology,
            max_new_tokens=room,
            seed=seed,
            detail=False,
            draft_temperature=None if fault is None else fault.draft_temperature,
        )
        self.verifier = None if fault is None else fault.verifier
        self.distribution = joint_distribution(pair.target, self.template.prompt_ids, self.length)
        self.counts: Counter[Outcome] = Counter()
        self.decodes = self.rounds = self.tokens = self.accepting = 0

    def decode(self) -> Outcome:
        """Decode once more, with the next seed, and count the outcome."""
        template, seed = self.template, derived_seed(self.template.seed, self.decodes)
        settings = template.pair, template.settings, Trees(template.topology), template.prompt_ids, seed
        emitted: list[int] = []
        for round in Engine(*settings, self.verifier).rounds():
            emitted += [token.id for token in round.tokens]
            self._count(round)
            if len(emitted) >= self.length:
                break
        outcome = tuple(emitted[: self.length])
        self.counts[outcome] += 1
        self.decodes += 1
        return outcome

    def _count(self, round: Round) -> None:
        self.rounds += 1
        self.tokens += len(round.tokens)
        self.accepting += round.tokens[0].kind == "accepted"

    def chi_square(self) -> ChiSquare:
        """Tests the outcomes of the decodes so far against the target's distribution, by Pearson's χ²."""
        return chi_square(self.counts, self.distribution)


def joint_distribution(model: Model, prefix: Sequence[int], length: int) -> dict[Outcome, float]:
    """The model's distribution of the next `length` tokens after a prefix, by enumeration.

    prefix: at least one token. ValueError if there are more than `MOST_OUTCOMES` outcomes.
    """
    if model.vocab_size**length > MOST_OUTCOMES:
        raise ValueError(
            f"length = {length}: {model.vocab_size:,} tokens have {model.vocab_size**length:,} continuations "
            f"of that length, but at most {MOST_OUTCOMES:,} are listed; take a smaller model or fewer tokens"
        )
    distribution: dict[Outcome, float] = {(): 1.0}
    for _ in range(length):
        distribution = {
            (*outcome, token): mass * p
            for outcome, mass in distribution.items()
            for token, p in enumerate(_next_token(model, [*prefix, *outcome]))
        }
    return distribution


def _next_token(model: Model, text_ids: list[int]) -> list[float]:
    session = model.session()
    session.prefill(text_ids[:-1])
    return log_probs(session.forward(torch.tensor(text_ids[-1:]), [-1])[0], Sampling()).exp().tolist()


def chi_square(counts: Mapping[Any, int], distribution: Mapping[Any, float]) -> ChiSquare:
    """Pearson's test of counted outcomes against a distribution.

    An outcome with an expected count of at least 5 is a cell. All rarer outcomes are pooled in one cell. If
    their expected counts sum to less than 5, they are added to the smallest other cell instead, and a second
    test, exact by the binomial distribution, asks whether they were counted too often. The p-value is then
    twice the smaller p-value of both tests, at most 1. If at most one outcome reaches 5, the cells are the
    likeliest outcome and all others together. With two cells the first test is exact, too. The statistic is
    always Pearson's. The p-value is 0 if an outcome of probability 0 was counted.

    With more than two cells the χ² approximation is used. The true p-value may be larger by these factors:

        expected counts                    stated p-value 2e-7    1e-9
        5 in each cell                     8                      50
        14 in each cell                    2                      4
        nearly all in one cell, else 5     111                    1,400
        nearly all in one cell, else 14    25                     160
    """
    cells, rare = _cells(counts, distribution)
    total = sum(counts.values())
    if sum(observed for observed, _ in cells) + rare[0] < total:
        return ChiSquare(float("inf"), max(len(cells) - 1, 0), 0.0)
    # a distribution sums to one up to rounding
    expected = sum(expected for _, expected in cells) + rare[1]
    scale = total / expected if expected else 1.0
    cells = [(observed, scale * expected) for observed, expected in cells]
    rare = rare[0], scale * rare[1]
    joined = _joined(cells, rare)
    if len(joined) < 2:
        return ChiSquare(0.0, 0, 1.0)
    statistic = sum((observed - expected) ** 2 / expected for observed, expected in joined)
    if len(joined) == 2:
        p_value = _two_sided(*min(joined, key=itemgetter(1)), total)
    else:
        p_value = tail(len(joined) - 1, statistic)
    if rare[1] and len(cells) > 1:
        p_value = min(1.0, 2 * min(p_value, _too_many(*rare, total)))
    return ChiSquare(statistic, len(joined) - 1, p_value)


def _cells(
    counts: Mapping[Any, int], distribution: Mapping[Any, float]
) -> tuple[list[tuple[int, float]], tuple[int, float]]:
    """Observed and expected count of each cell, and the sums of both over outcomes too rare for a cell."""
    total = sum(counts.values())
    pairs = [(counts.get(outcome, 0), mass * total) for outcome, mass in distribution.items() if mass > 0]
    cells = [pair for pair in pairs if pair[1] >= LEAST_EXPECTED]
    small = [pair for pair in pairs if pair[1] < LEAST_EXPECTED]
    if not cells and small:  # with no cell, the likeliest outcome becomes one
        small.remove(likeliest := max(small, key=itemgetter(1)))
        cells = [likeliest]
    pooled = sum(observed for observed, _ in small), sum(expected for _, expected in small)
    return ([*cells, pooled], (0, 0.0)) if pooled[1] >= LEAST_EXPECTED else (cells, pooled)


def _joined(cells: list[tuple[int, float]], rare: tuple[int, float]) -> list[tuple[int, float]]:
    """The cells of a test, after the rare outcomes were added to the smallest cell.

    If there is only one cell, the rare outcomes become a second cell.
    """
    if not rare[1]:
        return cells
    if len(cells) == 1:
        return [*cells, rare]
    smallest = min(cells, key=itemgetter(1))  # a deviation of rare outcomes shows most in the smallest cell
    larger = [*cells]
    larger.remove(smallest)
    return [*larger, (smallest[0] + rare[0], smallest[1] + rare[1])]


def _two_sided(observed: int, expected: float, total: int) -> float:
    """The p-value of a binomial count: twice its smaller tail, at most 1. expected: at most total / 2."""
    k, mass = _binomial(observed, expected, total)
    return min(1.0, 2 * float(mass[k >= observed].sum()), 2 * float(mass[k <= observed].sum()))


def _too_many(observed: int, expected: float, total: int) -> float:
    """P(a binomial count is at least `observed`); 1 if `observed` is not above `expected`."""
    k, mass = _binomial(observed, expected, total)
    return min(1.0, float(mass[k >= observed].sum())) if observed > expected else 1.0


def _binomial(observed: int, expected: float, total: int) -> tuple[Tensor, Tensor]:
    """The possible counts near the observed count, and their binomial probabilities.

    More distant counts add nothing to the smaller of the two tails.
    """
    width = int(40 * math.sqrt(expected)) + 1000
    k = torch.arange(max(0, observed - width), min(total, observed + width) + 1, dtype=torch.float64)
    p, n = max(expected / total, 1e-300), torch.tensor(total, dtype=torch.float64)
    choices = torch.lgamma(n + 1) - torch.lgamma(k + 1) - torch.lgamma(n - k + 1)
    return k, (choices + k * math.log(p) + (n - k) * math.log1p(-p)).exp()


def tail(degrees_of_freedom: int, x: float) -> float:
    """P(χ² > x)."""
    half = torch.tensor([degrees_of_freedom, x], dtype=torch.float64) / 2
    return float(torch.special.gammaincc(half[0], half[1]))


def critical(degrees_of_freedom: int, level: float) -> float:
    """The critical value of χ²: a statistic of this size has the p-value `level`."""
    return bisected(lambda x: tail(degrees_of_freedom, x) < level, 0.0, 1e6)


def bisected(holds: Callable[[float], bool], low: float, high: float) -> float:
    """The smallest number from `low` to `high` at which `holds` is true; `holds` stays true above it."""
    while high - low > 1e-6 * max(high, 1.0):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
