"""Tools for tests of distributions: exhaustive enumeration, χ² tests, small models."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from specdec import ModelPair, stream
from specdec.exactness.losslessness import chi_square
from specdec.methods import DRAFTING
from specdec.models import MarkovModel
from specdec.topology import Topology
from specdec.trace import Round

OTHER_RULES = tuple(rule for rule in DRAFTING if rule not in ("gsd", "ersd"))
"""Rules of other papers."""
TREE = Topology([(0,), (1,), (0, 0), (1, 0)])
"""The smallest tree with siblings at the root and a second level below both."""
FALSE_ALARM = 1e-6
"""The probability with which one χ² test of this project fails on correct code. With fixed seeds it never
does."""


def random_table(vocab_size: int, order: int, seed: int, concentration: float = 1.0) -> Tensor:
    """A random Markov table [V] * order + [V]."""
    generator = torch.Generator().manual_seed(seed)
    shape = [vocab_size] * (order + 1)
    gamma = torch.empty(shape, dtype=torch.float64).exponential_(generator=generator) ** (1 / concentration)
    return gamma / gamma.sum(-1, keepdim=True)


def adversarial(table: Tensor) -> Tensor:
    """A draft that prefers the tokens that the target avoids: q ∝ 1/p."""
    inverse = 1 / table
    return inverse / inverse.sum(-1, keepdim=True)


def pair_of(p: Any, q: Any) -> ModelPair:
    """A target and a draft with these Markov tables. A list of probabilities gives independent tokens."""
    return ModelPair(MarkovModel(p, "target"), MarkovModel(q, "draft"))


def markov_pair(vocab_size: int = 3, seed: int = 0) -> ModelPair:
    """Two independent random Markov models of order 1."""
    return pair_of(random_table(vocab_size, 1, seed), random_table(vocab_size, 1, seed + 1))


def adversarial_pair(vocab_size: int = 16) -> ModelPair:
    """A pair whose draft prefers the tokens that the target avoids."""
    table = random_table(vocab_size, 1, seed=5, concentration=2.0)
    return pair_of(table, adversarial(table))


def samplings(temperatures: Sequence[float]) -> list[dict[str, float]]:
    """Settings of sampling: each temperature with each top-p, and each top-k with all of both."""
    return [
        {"temperature": temperature, "top_p": top_p, "top_k": (0, 1, 5)[(i + j) % 3]}
        for i, temperature in enumerate(temperatures)
        for j, top_p in enumerate((0.05, 0.5, 0.9, 1.0))
    ]


def first_tokens(rounds: Iterable[Round], length: int) -> tuple[int, ...]:
    """The first `length` tokens of a decode. Later rounds are not computed."""
    return tuple(islice((token.id for round in rounds for token in round.tokens), length))


def texts(
    pair: ModelPair, method: str, topology: Any, runs: int, length: int = 2, **settings: Any
) -> Iterator[tuple[int, ...]]:
    """The first tokens of decoded texts. The texts are longer, so that no tree is cut for these tokens."""
    settings |= {"method": method, "topology": topology, "max_new_tokens": length + 6, "detail": False}
    for seed in range(runs):
        yield first_tokens(stream(pair, [0], seed=seed, **settings), length)


Choose = Callable[[int], int]


def enumerate_distribution(
    run: Callable[[Choose], tuple[tuple[int, ...], float]],
) -> dict[tuple[int, ...], float]:
    """The distribution of the results of `run`, over every sequence of its choices.

    run(choose) calls `choose(n)` wherever chance decides between n outcomes, and returns the result and the
    probability of the choices that it got. All leaves are visited; nothing is sampled.
    """
    distribution: dict[tuple[int, ...], float] = defaultdict(int)  # rationals stay rational
    waiting: list[list[int]] = [[]]
    while waiting:
        prefix = waiting.pop()
        choices: list[int] = []

        def choose(n: int, prefix: list[int] = prefix, choices: list[int] = choices) -> int:
            if len(choices) < len(prefix):
                choices.append(prefix[len(choices)])
            else:
                waiting.extend([*choices, other] for other in range(1, n))
                choices.append(0)
            return choices[-1]

        outcome, probability = run(choose)
        distribution[outcome] += probability
    return distribution


def distance(distribution: dict, other: dict) -> float:
    """The largest difference between two distributions."""
    return max(
        abs(distribution.get(key, 0.0) - other.get(key, 0.0)) for key in distribution.keys() | other.keys()
    )


def chi_square_p_value(
    samples: Iterable[tuple[int, ...]], distribution: dict[tuple[int, ...], float]
) -> float:
    """The p-value of samples against a distribution. Bins with fewer than 5 expected counts are merged into
    one."""
    counts = Counter(samples)
    assert counts.keys() <= {key for key, mass in distribution.items() if mass > 0}, "an impossible outcome"
    result = chi_square(counts, distribution)
    assert result.degrees_of_freedom > 0, "too few samples for two bins"
    return result.p_value
