"""One race over a large vocabulary on a CPU, of which only arrivals that can be among the first are computed.

A small exponential comes from a small uniform. The tokens with the smallest uniforms are found once for a
position; the exponential of every other token is above a known limit, so that it can arrive before a time t
only if its probability is above limit / t. These few are added, and nobody else needs a logarithm, or a
place in memory. The arrivals are the same ones, on the same numbers, as those of the whole race.
"""

from __future__ import annotations

import math

import numpy as np

from specdec.race import splitmix

EARLY = 512
"""Tokens expected among those with the smallest uniforms."""
_LOG_REACH = math.log(4.0)  # a first arrival is later than 4 in 2 races of 100: then one look more
_SLACK = 1e-3  # log-probabilities are compared in float32, whose steps at -100 are 1e-5


def log_exponential(u: np.ndarray) -> np.ndarray:
    """log e of uniforms in float64, in place: e = -log(1 - u) is Exp(1)."""
    np.negative(np.log1p(np.negative(u, out=u), out=u), out=u)
    return np.log(u, out=u)


class SparseRace:
    """The race of one key over `vocab_size` tokens."""

    def __init__(self, key: int, vocab_size: int):
        self.key, self.vocab_size = key, vocab_size
        limit = min((EARLY << splitmix.COARSE) // vocab_size, (1 << splitmix.COARSE) - 1)
        self._early = splitmix.below(key, vocab_size, limit)
        self._log_e = log_exponential(splitmix.at(key, self._early))
        self._log_least = math.log(-math.log1p(-limit * 2.0**-splitmix.COARSE))  # of all others

    def log_e(self, tokens: list[int]) -> list[float]:
        """log e of these tokens."""
        return log_exponential(splitmix.at(self.key, np.array(tokens))).tolist()

    def first(self, log_p: np.ndarray, count: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """Log times and tokens of the first `count` arrivals, in order; times are infinite where p is 0.

        log_p: [vocabulary].
        """
        early = self._log_e - log_p[self._early]
        log_reach = _LOG_REACH
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
        """Tokens and log times of all that can arrive until `log_reach`, and of some that can't."""
        likely = np.flatnonzero(log_p > self._log_least - log_reach - _SLACK)
        log_e = log_exponential(splitmix.at(self.key, likely))
        late = log_e >= self._log_least  # the others are among the early ones
        likely, log_e = likely[late], log_e[late]
        tokens = np.concatenate([self._early, likely])
        return tokens, np.concatenate([early, log_e - log_p[likely]])


def _earliest(times: np.ndarray, count: int) -> np.ndarray:
    """Where the `count` smallest are, in order; all where there are fewer."""
    return times.argmin(axis=0, keepdims=True) if count == 1 and len(times) else times.argsort()[:count]
