"""The race as a watermark: with its seed anybody can test whether a text came from it.

A winner arrives early: the exponentials of a text's tokens are smaller than those of tokens that know nothing
of the seed (Liu, Wan, Gao and Gündüz 2026). Whoever has the seed looks them up; the text's law is the
target's own. Texts of `ar` and `ersd` are winners all along; GSD's drafts are winners under q.
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
    """How a text stands to a seed.

    tokens: of each token, Exp(1) where it knows nothing of the seed, larger where it won the seed's race.
    total: their sum. p_value: the chance of that total, or a larger one, where the text knows nothing of it.
    """

    tokens: tuple[float, ...]
    total: float
    p_value: float


def score(token_ids: Sequence[int], seed: int, first_position: int = 0) -> Score:
    """Score -ln(1 - exp(-e_x)) of each token x, e being the race of its position; their sum is Gamma(T, 1).

    first_position: of the first token, counted from the start of the prompt: `len(generation.prompt_ids)` for
    all of `generation.token_ids`. A token that was replaced costs its own score only; behind one that was put
    in or left out, all positions are others. ValueError names a token, seed or position that is none.
    """
    seed, first = checked_seed(seed), whole("first_position", first_position, 0)
    ids = [
        whole(f"token_ids[{i}]", token_id, 0) for i, token_id in enumerate(integers("token_ids", token_ids))
    ]
    # e = -ln(1 - u), so that s = -ln u
    tokens = [-math.log(uniform(seed, first + i, token_id, Stream.RACE)) for i, token_id in enumerate(ids)]
    total = math.fsum(tokens)
    return Score(tuple(tokens), total, _gamma_tail(len(tokens), total))


def p_values(scores: Sequence[float]) -> tuple[float, ...]:
    """The p-value of each beginning of a text, given the scores of its tokens."""
    return tuple(_gamma_tail(count, total) for count, total in enumerate(accumulate(scores), 1))


def _gamma_tail(count: int, total: float) -> float:
    """P(Gamma(count, 1) >= total); 1 without tokens."""
    if not count:
        return 1.0
    shape, value = torch.tensor([count, total], dtype=torch.float64)
    return float(torch.special.gammaincc(shape, value))
