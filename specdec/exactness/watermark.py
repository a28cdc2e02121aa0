"""The race as a watermark: a test with the seed shows whether a text was decoded with this seed.

The winner of a race arrives early. The exponentials of a text's tokens are therefore smaller than those of
tokens that do not depend on the seed (Liu, Wan, Gao and Gündüz 2026). The text still has the target's
distribution. All tokens of `ar` and `ersd` are winners of the race under p. GSD's first children
are winners under q.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import torch

from specdec.checks import integers, whole
from specdec.race import Stream, checked_seed, uniform


class Score(NamedTuple):
    """How strongly a text's tokens indicate that the text was decoded with a seed.

    tokens: a score for each token, distributed as Exp(1) if the text does not depend on the seed, and larger
    if the token won the seed's race. total: the sum of the scores. p_value: probability of a total at least
    as large, if the text does not depend on the seed.
    """

    tokens: tuple[float, ...]
    total: float
    p_value: float


def score(token_ids: Sequence[int], seed: int, first_position: int = 0) -> Score:
    """Score each token x with -ln(1 - exp(-e_x)); e_x is its exponential in the race of its position.

    If the text does not depend on the seed, the sum over T tokens is Gamma(T, 1). first_position: position of
    the first token, counted from the start of the prompt; to score all of `generation.token_ids`, it is
    `len(generation.prompt_ids)`. A replaced token loses only its own score. An inserted or deleted token
    shifts all positions after it. A ValueError names a bad token, seed or position.
    """
    seed, first = checked_seed(seed), whole("first_position", first_position, 0)
    ids = [
        whole(f"token_ids[{i}]", token_id, 0) for i, token_id in enumerate(integers("token_ids", token_ids))
    ]
    # e = -ln(1 - u), so the score is -ln u
    tokens = [-math.log(uniform(seed, first + i, token_id, Stream.RACE)) for i, token_id in enumerate(ids)]
    total = math.fsum(tokens)
    return Score(tuple(tokens), total, _gamma_tail(len(tokens), total))


def p_values(scores: Sequence[float]) -> tuple[float, ...]:
    """The p-value of each prefix of a text: of its first token, its first two tokens, and so on."""
    return tuple(_gamma_tail(count, total) for count, total in enumerate(accumulate(scores), 1))


def _gamma_tail(count: int, total: float) -> float:
    """P(Gamma(count, 1) >= total); 1 without tokens."""
    if not count:
        return 1.0
    shape, value = torch.tensor([count, total], dtype=torch.float64)
    return float(torch.special.gammaincc(shape, value))
