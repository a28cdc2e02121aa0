"""Independent draws from a race: tokens that have arrived go on arriving.

If token i arrives again and again, each time after a wait of rate q_i, then the sequence of all arrivals is
a sequence of independent samples of q. Its distinct tokens, in order, are the arrivals of the race without
replacement.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from heapq import heapify, heapreplace

_LARGEST = 700.0  # a logarithm whose exponential a float holds


def with_replacement(
    tokens: Sequence[int], log_times: Sequence[float], log_q: Sequence[float], log_e: Sequence[float]
) -> list[int]:
    """Independent samples of q, one for each wait in log_e: tokens in the order of all their arrivals.

    tokens: the first arrivals of the race, as many as there are waits, or fewer where q has less support.
    log_times, log_q: the logarithms of their times and of their q; both may be off by the same constant.
    log_e: see `PositionNoise.log_waits`.
    """
    earliest = min(log_times)
    waiting = [(_exp(time - earliest), place) for place, time in enumerate(log_times)]
    heapify(waiting)
    drawn = []
    for wait in log_e:
        time, place = waiting[0]
        drawn.append(tokens[place])
        heapreplace(waiting, (time + _exp(wait - log_q[place] - earliest), place))
    return drawn


def _exp(x: float) -> float:
    return math.exp(x) if x < _LARGEST else math.inf
