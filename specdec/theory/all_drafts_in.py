"""Probability that at least one of n drafts lies outside a set H, the first m tokens of some order.

For independent draws it is 1 - Q(H)^n. For the first n arrivals of a race let c = Q(Hᶜ), and let N(t) be the
number of tokens of H that have arrived by time t. The first token outside H arrives at rate c, so that

    Pr(some draft is outside H) = ∫ c e^-ct Pr[N(t) < n] dt.

N(t) is a sum of independent indicators with probabilities 1 - e^-qt. If N(t) were Poisson with mean Q(H) t,
the integral would be the probability for independent draws. Only the difference is integrated:

    1 - Q(H)^n + ∫ c e^-ct (Pr[N(t) < n] - Pr[Poisson(Q(H) t) < n]) dt.

The difference vanishes quickly on both sides, so with t = e^y the trapezoid rule converges exponentially.
"Heavy" tokens, with large q t, enter the distribution of N(t) one by one. The many "light" tokens enter
together, through the sums of their q, q², q³, ... over H. For two arrivals there is a closed form.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

_ERROR = 1e-13
"""The largest probability that is left out before the first time of the grid, and after its last time."""
_LARGEST_STEP = 0.15
_POWERS = 8
_SERIES_ERROR = 1e-3
_TINY = 1e-290
_BLOCK = 2**20

Outside = Callable[[np.ndarray], np.ndarray]
"""A function that takes set sizes m, int [sets], and returns the probabilities [sets] that some draft is
outside the first m tokens."""


def outside_of_draws(q: np.ndarray, n: int) -> Outside:
    """Pr(some draft is outside H), where drafts are n independent draws from q [tokens].

    The result is a function of m, where H is the set of the first m tokens. This is not in the paper.
    """
    tail = _mass_above(q)
    return lambda m: 1 - (1 - np.minimum(tail[m], 1.0)) ** n


def outside_of_arrivals(q: np.ndarray, n: int) -> Outside:
    """Pr(some draft is outside H), where drafts are the first n arrivals of a race under q [tokens].

    The result is a function of m, where H is the set of the first m tokens. Every q must be above 0. With at
    most n tokens in all, all of them are drafted. This is not in the paper.
    """
    if n == 1:
        return outside_of_draws(q, n)
    if n >= len(q):
        return lambda m: np.where(m < len(q), 1.0, 0.0)
    return _outside_of_two(q) if n == 2 else _Arrivals(q, n)


def _mass_above(q: np.ndarray) -> np.ndarray:
    """The mass under Q of all tokens except the first m, for each m: [tokens + 1]. It is summed from the last
    token on, so that small values stay exact."""
    return np.append(np.cumsum(q[::-1])[::-1], 0.0)


def _outside_of_two(q: np.ndarray) -> Outside:
    """Pr(at least one of two arrivals is outside H) for every m.

    Either the first arrival is outside H, or it is a token x of H and the second arrival is outside H. Given
    x, the second arrival is outside H with probability c / (1 - q_x).
    """
    tail = _mass_above(q)
    complement = np.concatenate([[0.0], np.cumsum(q)[:-1]]) + tail[1:]  # 1 - q without its rounding
    odds = np.concatenate([[0.0], np.cumsum(q / complement)])
    return lambda m: np.minimum(tail[m] * (1 + odds[m]), 1.0)


class _Arrivals:
    """Computes the integral of this module's docstring for any m, if q [tokens] > 0 and 2 < n < tokens."""

    def __init__(self, q: np.ndarray, n: int):
        q = np.maximum(q, _TINY)
        self.n, self.size, self.rest = n, len(q), _mass_above(q)
        # the time of the n-th arrival varies by about 1 / √n in log t
        self.step = min(_LARGEST_STEP, 0.8 / math.sqrt(n))
        self.times = _times(q, n, self.step)
        heavy = q * self.times[-1] > (_SERIES_ERROR / n) ** (1 / _POWERS)
        self.heavy, self.counts = q[heavy], np.concatenate([[0], np.cumsum(heavy)])
        light = np.where(heavy, 0.0, q * self.times[-1])  # scaled so that no power overflows
        powers = np.stack([np.cumsum(light**power) for power in range(1, _POWERS + 1)])
        self.sums = np.concatenate([np.zeros((_POWERS, 1)), powers], 1)  # [powers, m]

    def __call__(self, m: np.ndarray) -> np.ndarray:
        order = np.argsort(m)
        ordered, probabilities, heavy = m[order], np.empty(len(m)), self._heavy_counts()
        count, arrived = next(heavy)
        most = max(1, _BLOCK // arrived.size)
        for start in range(0, len(m), most):
            some = ordered[start : start + most]
            light = _counts_of_light(self.sums[:, some], self.times / self.times[-1], self.n)
            light = np.cumsum(light, 1)[:, ::-1]
            fewer, counts = np.empty((len(some), len(self.times))), self.counts[some]  # Pr[N(t) < n]
            for total in np.unique(counts):
                while count < total:
                    count, arrived = next(heavy)
                same = slice(*np.searchsorted(counts, [total, total + 1]))
                fewer[same] = np.einsum("jt,sjt->st", arrived, light[same])
            probabilities[order[start : start + most]] = self._integral(some, fewer)
        if np.isnan(probabilities).any():
            raise ArithmeticError("the integral is not a number; this is an error in specdec")
        probabilities = np.where(m < self.n, 1.0, np.clip(probabilities, 0.0, 1.0))
        return np.where(m == self.size, 0.0, probabilities)

    def _heavy_counts(self) -> Iterator[tuple[int, np.ndarray]]:
        """Yields, for the first 0, 1, ... heavy tokens, their number and the probabilities [n, times] that j
        of them have arrived, for j < n. It yields the same array each time, changed in place."""
        arrived = np.zeros((self.n, len(self.times)))
        arrived[0] = 1
        yield 0, arrived
        for count, q in enumerate(self.heavy, start=1):
            rate = q * self.times
            more = arrived[:-1] * -np.expm1(-rate)
            arrived *= np.exp(-rate)
            arrived[1:] += more
            yield count, arrived

    def _integral(self, m: np.ndarray, fewer: np.ndarray) -> np.ndarray:
        """Pr(some draft is outside H), [sets], where H is the set of the first m tokens.

        m: the sizes of the sets, [sets]. fewer: Pr[N(t) < n] of the module's integral, [sets, times].
        """
        c, times = self.rest[m, None], self.times
        inside = 1 - np.minimum(c, 1.0)
        # at later times e^-ct or the Poisson probability is zero, and the terms of the series would overflow
        poisson = _counts_of_light(inside.T, np.minimum(times, 4 * self.n + 2000), self.n).sum(1)
        difference = c * times * np.exp(-c * times) * (fewer - poisson)
        return 1 - inside[:, 0] ** self.n + self.step * difference.sum(1)


def _times(q: np.ndarray, n: int, step: float) -> np.ndarray:
    """The grid of times, [times]. At its first time it is almost impossible that n tokens have arrived, and
    at its last time almost certain."""
    first = (math.lgamma(n + 1) + math.log(_ERROR / 100)) / n  # Pr[N(t) >= n] <= t^n / n!
    counts, edges = np.histogram(np.log(q), bins=1024)
    rates, counts = np.exp(edges[:-1][counts > 0]), counts[counts > 0]
    low, high = 0, math.ceil((705 - first) / step)
    while low < high:
        middle = (low + high) // 2
        missing = float((counts * np.exp(-rates * math.exp(first + step * middle))).sum())
        if _log_tail(missing, len(q), n) > math.log(_ERROR):
            low = middle + 1
        else:
            high = middle
    return np.exp(first + step * np.arange(low + 1))


def _log_tail(missing: float, size: int, n: int) -> float:
    """Upper bound (Chernoff) of log Pr[fewer than n of `size` tokens have arrived]. missing: the expected
    number of tokens that have not arrived."""

    def bound(mean: float, count: int) -> float:
        # computed as two logarithms, because the quotient may be zero in floating point
        return count - mean + count * (math.log(mean) - math.log(count)) if mean > 0 else -math.inf

    arrived, absent = size - missing, size - n + 1
    few = bound(arrived, n - 1) if arrived > n - 1 else 0.0
    many = bound(missing, absent) if missing < absent else 0.0
    return min(few, many)


def _log_series() -> np.ndarray:
    """Coefficients [powers, i] of x^power z^i in log(z + (1 - z) e^-x).

    This is the logarithm of the generating function of one arrival. As a function of -x it generates the
    cumulants of a Bernoulli variable with parameter u = 1 - z: κ_1 = u and κ_(k+1) = u (1 - u) dκ_k / du.
    """
    series = np.zeros((_POWERS, _POWERS + 1))
    polynomial = np.polynomial.Polynomial
    cumulant = polynomial([0, 1])
    for power in range(1, _POWERS + 1):
        in_z = cumulant(polynomial([1, -1])) * ((-1) ** power / math.factorial(power))
        series[power - 1, : len(in_z.coef)] = in_z.coef
        cumulant = polynomial([0, 1, -1]) * cumulant.deriv()
    return series


_LOG_SERIES = _log_series()


def _counts_of_light(sums: np.ndarray, times: np.ndarray, n: int) -> np.ndarray:
    """The probability that exactly j tokens of a set have arrived at each time, for j < n: [sets, n, times].

    sums: for each set of tokens, the sums of q, q², ... over its tokens, [powers, sets]. If only the sums of
    q are given, the number of arrivals is taken to be Poisson distributed.
    """
    powers = len(sums)
    terms = sums[:, :, None] * times ** np.arange(1, powers + 1)[:, None, None]  # [powers, sets, times]
    logs = np.einsum("pi,pst->ist", _LOG_SERIES[:powers, : powers + 1], terms)
    counts = np.empty((sums.shape[1], n, len(times)))
    counts[:, 0] = 1
    # the logarithm of a common factor of all counts; without this factor, counts could overflow
    scale = logs[0].copy()
    for j in range(1, n):
        counts[:, j] = sum(i * logs[i] * counts[:, j - i] for i in range(1, min(j, powers) + 1)) / j
        if j % 32 == 0:
            size = np.maximum(np.abs(counts[:, j - powers : j + 1]).max(1), 1.0)
            counts[:, : j + 1] /= size[:, None]
            scale += np.log(size)
    return counts * np.exp(np.minimum(scale, 700.0))[:, None]
