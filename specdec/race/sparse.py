"""One race over a large vocabulary on a CPU: only tokens that can still win are computed.

If all exponentials are above a limit, only a token with a weight above limit / t can arrive before a time t.
No other token needs a logarithm or memory, and the arrivals are the same as in a race that computes all
tokens. There are two limits:

- No exponential is below that of the smallest possible uniform, 2**-54. At a low temperature only few weights
  are large enough to win even with this exponential.
- If too many tokens could win with it, the tokens with the smallest uniforms ("early tokens") are found, once
  per race. The exponentials of all other tokens are above a larger limit.

Weights are probabilities times any common factor, so no sum over the vocabulary is needed.
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
"""The expected number of early tokens: those with the smallest uniforms, found once per race."""
_LOG_REACH = math.log(4.0)
"""The logarithm of 4. The first search for n arrivals covers the times up to 4 n, divided by the largest
weight. For one arrival, at most two of 100 searches must go on beyond this time."""
_LOG_SMALLEST = math.log(-math.log1p(-(2.0**-54)))
"""The logarithm of the smallest exponential."""
_FEW = 1 / 16
"""If at most this share of all tokens could win with the smallest exponential, only they are computed."""
_SLACK = 1e-3  # log-weights are compared in float32, which rounds a limit by less than 1e-7 of it


class SparseRace:
    """A `Race` over `vocab_size` tokens that computes only noise which can decide. key: that of the noise."""

    def __init__(self, key: int, vocab_size: int):
        self.key, self.vocab_size = key, vocab_size
        self._limit = min((EARLY << splitmix.COARSE) // vocab_size, (1 << splitmix.COARSE) - 1)
        # the smallest uniform and the smallest exponential that a token can have that is not early
        self._least = self._limit * 2.0**-splitmix.COARSE
        self._log_least = math.log(-math.log1p(-self._least))

    @cached_property
    def _early(self) -> tuple[np.ndarray, np.ndarray]:
        """The tokens with the smallest uniforms, and the logarithms of their exponentials."""
        tokens = splitmix.below(self.key, self.vocab_size, self._limit)
        return tokens, log_exponential(splitmix.at(self.key, tokens))

    @cached_property
    def exponentials(self) -> Tensor:
        """The logarithm of each token's exponential in this race, float64 [vocabulary]."""
        return fill(torch.empty(1, self.vocab_size, dtype=torch.float64), [self.key])[0]

    def winner(self, log_p: Tensor) -> int:
        """The token that arrives first, argmin e / p, under log_p [vocabulary]; see `Race.winner`."""
        log_w = log_p.cpu().numpy()
        most = int(log_w.argmax())
        return int(self._first(log_w, most, 1)[1][0]) if math.isfinite(log_w[most]) else most

    def arrivals(self, log_q: Tensor, count: int) -> list[list[int]]:
        """For each row of log_q [n, vocabulary], the first `count` arrivals under q, in order."""
        return [self._arrivals(row, count) for row in log_q.cpu().numpy()]

    def _arrivals(self, log_w: np.ndarray, count: int) -> list[int]:
        most = int(log_w.argmax())  # the first NaN, if there is one
        if not math.isfinite(log_w[most]):
            return []
        times, tokens = self._first(log_w, most, count)
        return tokens[np.isfinite(times)].tolist()

    def log_e(self, tokens: Sequence[int]) -> list[float]:
        """log e of these tokens, where e is the exponential of a token."""
        return log_exponential(splitmix.at(self.key, np.array(tokens))).tolist()

    def _first(self, log_w: np.ndarray, most: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Log times and tokens of the first `count` arrivals under log-weights [vocabulary], in order.

        most: the token with the largest weight. The log time is infinite where the weight is 0.
        """
        log_reach = _LOG_REACH + math.log(count) - float(log_w[most])
        while True:
            # a search for several arrivals covers so much time that nearly all tokens could be among them
            can_win = _above(log_w, _LOG_SMALLEST - log_reach) if count == 1 else None
            if can_win is not None and np.count_nonzero(can_win) <= _FEW * len(log_w):
                tokens, times = self._arriving(log_w, can_win, log_reach)
            else:
                tokens, times = self._with_early(log_w, log_reach, count)
            order = _earliest(times, count)
            last = float(times[order[-1]]) if len(order) == count else math.inf
            if last <= log_reach or log_reach == math.inf:
                return times[order], tokens[order]
            log_reach = last

    def _with_early(self, log_w: np.ndarray, log_reach: float, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Candidates for the first `count` arrivals up to the log time `log_reach`: the early tokens, and all
        others that can be among these arrivals; and their log times."""
        early, log_e = self._early
        times = log_e - log_w[early]
        if count <= len(early):  # the last of the first `count` early tokens bounds the time
            log_reach = min(log_reach, float(times[_earliest(times, count)[-1]]))
        can_win = _above(log_w, self._log_least - log_reach)
        likely, later = self._arriving(log_w, can_win, log_reach, self._least)
        return np.concatenate([early, likely]), np.concatenate([times, later])

    def _arriving(
        self, log_w: np.ndarray, can_win: np.ndarray, log_reach: float, least: float = 0.0
    ) -> tuple[np.ndarray, np.ndarray]:
        """Tokens and log times of all arrivals up to the log time `log_reach`, perhaps with a few later ones.

        Only tokens in can_win, bool [vocabulary], whose uniform is at least `least` are considered.
        """
        tokens = np.flatnonzero(can_win)
        log_w = log_w[tokens].astype(np.float64)
        u = splitmix.at(self.key, tokens)
        # No exponential is below its uniform, so tokens with larger uniforms cannot arrive in time.
        soon = (u >= least) & (u <= np.exp(np.minimum(log_w + log_reach, 0) + _SLACK))
        return tokens[soon], log_exponential(u[soon]) - log_w[soon]


def _above(log_w: np.ndarray, limit: float) -> np.ndarray:
    """Which log-weights are above a limit, bool [vocabulary]. Some just below the limit may be included."""
    return log_w > limit - _SLACK * max(1.0, abs(limit))


def _earliest(times: np.ndarray, count: int) -> np.ndarray:
    """Indices of the `count` smallest times, in order; of all times if there are fewer."""
    return times.argmin(axis=0, keepdims=True) if count == 1 and len(times) else times.argsort()[:count]
