"""One race over a large vocabulary on a CPU: only tokens that can still win are computed.

A small exponential comes from a small uniform. The tokens with the smallest uniforms are found once per race.
The exponential of every other token is above a known limit, so that it can arrive before a time t only if its
probability is above limit / t. These few tokens are added; the others need no logarithm and no memory. The
arrivals are the same as in a race that computes all tokens.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from specdec.race import splitmix
from specdec.race.exponentials import fill, log_exponential

EARLY = 512
"""How many tokens with the smallest uniforms are expected to be found in advance."""
_LOG_REACH = math.log(4.0)
"""The logarithm of 4: the first search for n arrivals ends at the time 4 n. Two of 100 first arrivals are
later than 4, and a third of all eighth arrivals are later than 32; these need a second search."""
_SLACK = 1e-3  # log-probabilities are compared in float32, whose steps at -100 are 1e-5


class SparseRace:
    """A `Race` with the noise of this key over `vocab_size` tokens."""

    takes_weights = False  # a token that can still win is known by its probability

    def __init__(self, key: int, vocab_size: int):
        self.key, self.vocab_size = key, vocab_size
        limit = min((EARLY << splitmix.COARSE) // vocab_size, (1 << splitmix.COARSE) - 1)
        self._early = splitmix.below(key, vocab_size, limit)
        self._log_e = log_exponential(splitmix.at(key, self._early))
        # the limit for the exponentials of all other tokens
        self._log_least = math.log(-math.log1p(-limit * 2.0**-splitmix.COARSE))

    @cached_property
    def exponentials(self) -> Tensor:
        """Logarithms of the exponentials of all tokens, float64 [vocabulary]."""
        return fill(torch.empty(1, self.vocab_size, dtype=torch.float64), [self.key])[0]

    def winner(self, log_p: Tensor) -> int:
        """The token that arrives first, argmin e / p, under log_p [vocabulary]: a sample of p."""
        return int(self.first(log_p.numpy())[1][0])

    def arrivals(self, log_q: Tensor, count: int) -> list[list[int]]:
        """For each row of log_q [n, vocabulary], the first `count` arrivals under q, in order."""
        firsts = (self.first(row, count) for row in log_q.cpu().numpy())
        return [tokens[np.isfinite(times)].tolist() for times, tokens in firsts]

    def log_e(self, tokens: Sequence[int]) -> list[float]:
        """Logarithms of the exponentials of these tokens."""
        return log_exponential(splitmix.at(self.key, np.array(tokens))).tolist()

    def first(self, log_p: np.ndarray, count: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """Log times and tokens of the first `count` arrivals under log_p [vocabulary], in order.

        Times are infinite where p is 0.
        """
        early = self._log_e - log_p[self._early]
        log_reach = _LOG_REACH + math.log(count)
        while True:
            tokens, times = self._with_likely(log_p, early, log_reach)
            order = _earliest(times, count)
            last = times[order[-1]] if len(order) == count else math.inf
            if last <= log_reach or log_reach == math.inf:
                return times[order], tokens[order]
            log_reach = float(last)

    def _with_likely(
        self, log_p: np.ndarray, early: np.ndarray, log_reach: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Tokens and log times: all tokens that can arrive until `log_reach`, and perhaps more."""
        likely = np.flatnonzero(log_p > self._log_least - log_reach - _SLACK)
        log_e = log_exponential(splitmix.at(self.key, likely))
        late = log_e >= self._log_least  # the other tokens are among the early ones
        likely, log_e = likely[late], log_e[late]
        tokens = np.concatenate([self._early, likely])
        return tokens, np.concatenate([early, log_e - log_p[likely]])


def _earliest(times: np.ndarray, count: int) -> np.ndarray:
    """Indices of the `count` smallest times, in order; of all times if there are fewer."""
    return times.argmin(axis=0, keepdims=True) if count == 1 and len(times) else times.argsort()[:count]
