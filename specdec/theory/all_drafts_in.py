"""Probability that not all of n drafts lie in a set H, for sets that grow token by token.

Independent draws: 1 - Q(H)^n. The first n arrivals of a race: the first one from outside H comes at a time t,
at the rate c = Q(Hᶜ), and by then fewer than n tokens of H have arrived,

    ∫ c e^-ct Pr[fewer than n arrivals in H by t] dt,

where the number of arrivals is a sum of independent tests of 1 - e^-qt. With t = e^y it is integrated by the
trapezoid rule, as in `ersd_by_index`. Of a large vocabulary the tokens of the largest q are taken one by one;
the many others enter by the sums of their q, q², q³ and q⁴ over H, since each of them hardly ever arrives.
Two arrivals need no integral.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

EXACT = 128
"""Tokens up to which each is taken by itself; of more, so many with the largest q are."""

_STEP = 0.15
_FIRST_LOG_TIME, _MOST_LOG_TIME = -20.0, 40.0
_LAST_TIME = 42.0
_POWERS, _LIGHT = 4, 0.3  # of series in qt, and the largest qt
_TINY = 1e-300

Beyond = Callable[[np.ndarray], np.ndarray]
"""From numbers of tokens m [sets] to the probabilities [sets] that not all drafts are among the first m."""


def beyond_independent(q: np.ndarray, n: int) -> Beyond:
    """Of n independent draws from q; beside the paper."""
    # from above: a difference of sums would lose the tail
    outside = np.append(np.cumsum(q[::-1])[::-1], 0.0)
    return lambda m: 1 - (1 - np.minimum(outside[m], 1.0)) ** n


def beyond_without_replacement(q: np.ndarray, n: int) -> Beyond:
    """Of the first n arrivals of a race under q > 0, all where these are fewer; beside the paper."""
    n = min(n, len(q))
    if n == 1:
        return beyond_independent(q, n)
    return _beyond_two(q) if n == 2 else _Arrivals(q, n)


def _beyond_two(q: np.ndarray) -> Beyond:
    """Of two arrivals: the first is not in H, or it is x in H and then the second is not, c / (1 - q_x)."""
    outside = np.append(np.cumsum(q[::-1])[::-1], 0.0)
    others = np.concatenate([[0.0], np.cumsum(q)[:-1]]) + outside[1:]  # 1 - q, without its rounding
    entered = np.concatenate([[0.0], np.cumsum(q / others)])
    return lambda m: np.minimum(outside[m] * (1 + entered[m]), 1.0)


class _Arrivals:
    """Arrivals of a race by the times of a grid: of the first m tokens, for any m."""

    def __init__(self, q: np.ndarray, n: int):
        self.n = n
        self.outside = np.append(np.cumsum(q[::-1])[::-1], 0.0)
        heavy = np.ones(len(q), dtype=bool)
        if len(q) > EXACT:
            heavy[np.argpartition(-q, EXACT - 1)[EXACT:]] = False
        light = np.where(heavy, 0.0, q)
        self.times = _times(self.outside[-2], light.max())
        self.counts = np.concatenate([[0], np.cumsum(heavy)])  # heavy ones among the first m
        self.laws = _laws(q[heavy], self.times, n)  # [heavy + 1, n, times]
        powers = np.stack([light**power for power in range(1, _POWERS + 1)])
        self.sums = np.concatenate([np.zeros((_POWERS, 1)), np.cumsum(powers, 1)], 1)  # [powers, m]

    def __call__(self, m: np.ndarray) -> np.ndarray:
        c, times = self.outside[m, None], self.times
        few = self._fewer(m)  # [sets, times]
        density = c * times * np.exp(-c * times) * few
        # before the first time nothing has arrived; after the last, whatever has not will hardly do so
        ends = -np.expm1(-c[:, 0] * times[0]) + np.exp(-c[:, 0] * times[-1]) * few[:, -1]
        found = ends + _STEP * (density.sum(1) - (density[:, 0] + density[:, -1]) / 2)
        found = np.where(m < self.n, 1.0, np.clip(found, 0.0, 1.0))
        return np.where(m == len(self.outside) - 1, 0.0, found)

    def _fewer(self, m: np.ndarray) -> np.ndarray:
        """Pr[fewer than n of the first m tokens have arrived], [sets, times]."""
        laws = self.laws[self.counts[m]]  # [sets, n, times]
        if not self.sums[0, -1]:
            return laws.sum(1)
        light = _light_law(self.sums[:, m], self.times, self.n)  # [sets, n, times]
        up_to = np.cumsum(light, 1)[:, ::-1]  # at most n - 1, ..., 0 light ones
        return (laws * up_to).sum(1)


def _times(least: float, largest_light: float) -> np.ndarray:
    """The grid [times]: until the token outside the largest set has arrived, of q = least.

    Light tokens end it where one of them may well have arrived: there are many heavier ones, and of
    these either n in H have arrived by then, or one outside.
    """
    last = min(np.log(_LAST_TIME / max(least, _TINY)), _MOST_LOG_TIME)
    if largest_light > 0:
        last = min(last, np.log(_LIGHT / largest_light))
    return np.exp(np.arange(_FIRST_LOG_TIME, last + _STEP, _STEP))


def _laws(q: np.ndarray, times: np.ndarray, n: int) -> np.ndarray:
    """Pr[j of the first m tokens have arrived] for j < n and each m, [m + 1, n, times]."""
    laws = np.zeros((len(q) + 1, n, len(times)))
    laws[0, 0] = 1
    for i, rate in enumerate(q):
        stays = np.exp(-rate * times)
        laws[i + 1] = laws[i] * stays
        laws[i + 1, 1:] += laws[i, :-1] * -np.expm1(-rate * times)
    return laws


def _light_law(sums: np.ndarray, times: np.ndarray, n: int) -> np.ndarray:
    """Pr[j tokens have arrived] for j < n, [sets, n, times], of tokens with these sums of powers of q.

    sums: [powers, sets]. The generating function is the exponential of -Σ (1 - z)^k B_k / k, where B_k sums
    the k-th powers of the chances 1 - e^-qt: series in qt, to its fourth power.
    """
    s1, s2, s3, s4 = (s[:, None] * times**power for power, s in enumerate(sums, start=1))
    b1, b2, b3, b4 = s1 - s2 / 2 + s3 / 6 - s4 / 24, s2 - s3 + 7 / 12 * s4, s3 - 1.5 * s4, s4
    b2, b3, b4 = b2 / 2, b3 / 3, b4 / 4
    logs = [-(b1 + b2 + b3 + b4), b1 + 2 * b2 + 3 * b3 + 4 * b4, -(b2 + 3 * b3 + 6 * b4), b3 + 4 * b4, -b4]
    law = np.empty((sums.shape[1], n, len(times)))
    law[:, 0] = np.exp(np.minimum(logs[0], 0.0))
    for j in range(1, n):
        law[:, j] = sum(i * logs[i] * law[:, j - i] for i in range(1, min(j, _POWERS) + 1)) / j
    return law
