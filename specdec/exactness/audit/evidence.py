"""Tests of decodes against a distribution: p-values, and the smallest deviation that each test would find.

A token becomes a number on (0, 1) by the randomised probability integral transform (Rosenblatt 1952): the
probability of all likelier tokens, plus a random share of the token's own probability. If the engine is
right, these numbers are independent and uniform. So the tokens of all positions can be counted together, and
pairs of numbers show dependence.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from specdec.exactness.audit.distribution import NO_TOKEN
from specdec.exactness.losslessness import bisected, chi_square, critical

BINS = 20
GRID = 6
"""Single numbers are counted in `BINS` cells, and pairs of numbers in `GRID` x `GRID` cells."""
POWER = 0.99


@dataclass(frozen=True)
class Evidence:
    """One χ² test of one run.

    statistic, degrees_of_freedom, p_value: as `chi_square` computes them. count: number of counted outcomes.
    would_find: the smallest total variation of the cells' probabilities, between engine and distribution,
    that the test finds with probability 0.99.
    """

    name: str
    statistic: float
    degrees_of_freedom: int
    p_value: float
    count: int
    would_find: float

    def text(self) -> str:
        """The result in one line."""
        return (
            f"{self.name}: p = {self.p_value:.2g} (χ² {self.statistic:.1f}, degrees of freedom "
            f"{self.degrees_of_freedom}; {self.count:,} counted, a total variation of {self.would_find:.3f} "
            "would be found)"
        )


@dataclass(frozen=True)
class Duplicates:
    """The result of testing whether different seeds give equal texts too often.

    distance: the difference between two seeds for which the p-value is smallest. count: how many pairs of
    seeds with this difference were compared. same, expected: how many of these pairs have equal texts, and
    how many have by chance. repeats: how many texts equal the text of an earlier seed. p_value: upper bound
    over all distances and the repeats. With probability 0.99 the test finds a share `would_find` of equal
    texts in the pairs at distance 1, and an engine that uses at most `would_find_seeds` different seeds.
    """

    name: str
    distance: int
    count: int
    same: int
    expected: float
    repeats: int
    p_value: float
    would_find: float
    would_find_seeds: int

    def text(self) -> str:
        """The result in one line."""
        return (
            f"{self.name}: p = {self.p_value:.2g} ({self.same:,} of {self.count:,} pairs of seeds at "
            f"distance {self.distance:,}, where chance gives {self.expected:.1f}; {self.repeats:,} texts "
            f"equal an earlier one; equal texts in {self.would_find:.1%} of the pairs at one distance would "
            f"be found, and an engine with at most {self.would_find_seeds:,} different seeds)"
        )


def duplicates(
    name: str, texts: Sequence[Hashable], probabilities: Sequence[float], level: float
) -> Duplicates:
    """Tests whether seeds share their randomness, by comparing texts in pairs and with all earlier texts.

    probabilities: of each text under the distribution. level: the probability of a false alarm. For each
    distance between two seeds, every seed is in at most one pair. The second text of a pair equals the first
    with the first text's probability. So the number of equal pairs is a sum of independent indicators, and
    Chernoff's bound limits its tail. The smallest bound is multiplied by the number of distances. This test
    gets one half of the level, and `_Repeats` gets the other half.
    """
    numbers: dict[Hashable, int] = {}
    same_text = np.array([numbers.setdefault(text, len(numbers)) for text in texts])
    mass, seeds = np.asarray(probabilities, dtype=float), np.arange(len(texts))
    distances = range(1, len(texts))
    candidates = []
    for distance in distances:
        first = seeds[:-distance][seeds[:-distance] % (2 * distance) < distance]
        same = int((same_text[first] == same_text[first + distance]).sum())
        expected = float(mass[first].sum())
        candidates.append((_log_chernoff(len(first), same, expected), distance, len(first), same, expected))
    least, distance, count, same, expected = min(candidates)
    repeats = _Repeats(same_text, mass)
    p_value = min(1.0, 2 * len(distances) * math.exp(least), 2 * math.exp(repeats.log_p(repeats.count)))
    pairs, by_chance = candidates[0][2], candidates[0][4]
    least_same = bisected(
        lambda number: _log_chernoff(pairs, number, by_chance) < math.log(level / 2 / len(distances)),
        0.0,
        pairs,
    )
    share = bisected(
        lambda share: _log_chernoff(pairs, pairs - least_same, pairs * (1 - share)) < math.log(1 - POWER),
        0.0,
        1.0,
    )
    seeds_found = repeats.would_find(math.log(level / 2))
    return Duplicates(name, distance, count, same, expected, repeats.count, p_value, share, seeds_found)


class _Repeats:
    """Counts the texts that an earlier seed has given too, and tests whether they are too many.

    A correct engine repeats an earlier text with probability S, the sum of the earlier texts' probabilities.
    So exp(λ count) / Π (1 + S (e^λ - 1)) has mean 1 for each λ, and Markov's inequality bounds its tail.
    """

    RATES = 2.0 ** np.arange(-6, 4)

    def __init__(self, same_text: np.ndarray, mass: np.ndarray):
        _, first = np.unique(same_text, return_index=True)
        is_new = np.isin(np.arange(len(same_text)), first)
        earlier = np.minimum(np.cumsum(np.where(is_new, mass, 0.0)) - np.where(is_new, mass, 0.0), 1.0)
        self.num_texts, self.count = len(same_text), int((~is_new).sum())
        self._log_means = np.log1p(earlier * np.expm1(self.RATES)[:, None]).sum(1)

    def log_p(self, count: float) -> float:
        """Upper bound of the logarithm of the probability of at least this count."""
        return min(0.0, math.log(len(self.RATES)) + float((self._log_means - self.RATES * count).min()))

    def would_find(self, log_level: float) -> int:
        """The largest number of different seeds whose repeats reach this level with probability `POWER`."""
        least = bisected(lambda count: self.log_p(count) < log_level, 0.0, self.num_texts)

        def enough(seeds: float) -> bool:
            # the mean number of repeated texts
            repeated = self.num_texts + seeds * math.expm1(-self.num_texts / seeds)
            tail = repeated - least + least * math.log(least / repeated)  # Chernoff's bound
            return repeated > least and tail > -math.log(1 - POWER)

        return int(bisected(lambda seeds: not enough(seeds), 1.0, 1e9))


def _log_chernoff(count: int, number: float, expected: float) -> float:
    """Upper bound of log Pr(at least `number` of `count` independent events). expected: their mean number."""
    if number <= expected:
        return 0.0
    if expected <= 0:
        return -math.inf
    share, mean = number / count, expected / count
    failing = (1 - share) * math.log((1 - share) / (1 - mean)) if share < 1 else 0.0
    return -count * (share * math.log(share / mean) + failing)


def of_counts(
    name: str, counts: Mapping[Any, int], distribution: Mapping[Any, float], level: float
) -> Evidence:
    """Tests counted outcomes against a distribution. level: the probability of a false alarm."""
    test, count = chi_square(counts, distribution), sum(counts.values())
    # the test of rare outcomes may take half of the level
    smallest = detectable(count, test.degrees_of_freedom, level / 2)
    return Evidence(name, *test, count, smallest)


def places(distribution: np.ndarray, token_ids: np.ndarray, chance: np.ndarray) -> np.ndarray:
    """Numbers [n] on (0, 1), uniform if each token [n] follows its row of the distribution [n, vocabulary].

    chance: uniform numbers [n] that the audit draws. A token's number is 1 if the token has probability 0 or
    is `NO_TOKEN`.
    """
    own = np.take_along_axis(distribution, np.maximum(token_ids, 0)[:, None], 1)  # [n, 1]
    own[token_ids == NO_TOKEN] = 0
    earlier = (distribution > own) | (
        (distribution == own) & (np.arange(distribution.shape[1]) < token_ids[:, None])
    )
    below = np.where(earlier, distribution, 0).sum(1)
    return np.where(own[:, 0] > 0, below + chance * own[:, 0], 1.0)


def uniformity(name: str, numbers: np.ndarray, level: float) -> Evidence:
    """Test whether numbers are uniform."""
    cells = _cells(numbers.ravel(), BINS)
    return of_counts(name, Counter((cell,) for cell in cells), _uniform(BINS, 1), level)


def independence(name: str, pairs: np.ndarray, level: float) -> Evidence:
    """Test whether pairs [n, 2] are uniform, which also requires that the two numbers are independent."""
    cells = Counter(zip(*(_cells(column, GRID) for column in pairs.T), strict=True))
    return of_counts(name, cells, _uniform(GRID, 2), level)


def neighbours(numbers: np.ndarray, first: int) -> np.ndarray:
    """Pairs [n, 2] of neighbouring tokens' numbers [decodes, tokens]. The first pair begins at token `first`.

    No token is in two pairs.
    """
    even = numbers[:, first : first + (numbers.shape[1] - first) // 2 * 2]
    return even.reshape(-1, 2)


def consecutive(numbers: np.ndarray) -> np.ndarray:
    """Pairs [n, 2] of the numbers at one token position in two decodes with successive seeds.

    Each decode is in at most one pair.
    """
    even = numbers[: len(numbers) // 2 * 2]
    return np.stack([even[::2].ravel(), even[1::2].ravel()], 1)


def detectable(count: int, degrees_of_freedom: int, level: float) -> float:
    """The least total variation that a χ² test at this level finds with a power of at least `POWER`.

    The result is at most 1. By the inequality of Cauchy and Schwarz, the χ² divergence of a distribution at
    total variation d is at least 4 d².
    """
    if not degrees_of_freedom or not count:
        return 1.0
    least = critical(degrees_of_freedom, level)
    shift = bisected(lambda shift: _shifted_tail(degrees_of_freedom, shift, least) > POWER, 0.0, 1e6)
    return min(math.sqrt(shift / count) / 2, 1.0)


def _shifted_tail(degrees_of_freedom: int, shift: float, x: float) -> float:
    """P(noncentral χ² > x), as a Poisson mixture of central ones."""
    mean = shift / 2
    width = 12 * math.sqrt(mean) + 30
    steps = torch.arange(max(0, int(mean - width)), int(mean + width), dtype=torch.float64)
    weights = torch.exp(torch.xlogy(steps, mean) - mean - torch.lgamma(steps + 1))
    tails = torch.special.gammaincc(steps + degrees_of_freedom / 2, torch.full_like(steps, x / 2))
    return float((weights * tails).sum())


def _cells(numbers: np.ndarray, count: int) -> list[int]:
    return np.minimum((numbers * count).astype(int), count - 1).tolist()


def _uniform(count: int, dimensions: int) -> dict[tuple[int, ...], float]:
    return dict.fromkeys(np.ndindex(*((count,) * dimensions)), count ** (-dimensions))
