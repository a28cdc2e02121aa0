"""Independent draws from a race: tokens that have arrived go on arriving.

If token i arrives again and again, each time after a wait of rate q_i, all arrivals together come one after
the other with tokens that are independent samples of q. The first arrivals are those of the race without
replacement: what n independent draws have in common with it is that their distinct tokens are its first ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from heapq import heapify, heapreplace

from specdec.race.races import Stream, uniform

_LARGEST = 700.0  # a logarithm whose exponential a float holds


def log_waits(seed: int, position: int, count: int) -> list[float]:
    """log e of the waits after the first `count` arrivals at a position, keyed by (seed, position)."""
    return [math.log(-math.log1p(-uniform(seed, position, i, Stream.AGAIN))) for i in range(count)]


def with_replacement(
    tokens: Sequence[int], log_times: Sequence[float], log_q: Sequence[float], log_e: Sequence[float]
) -> list[int]:
    """Independent samples of q, as many as log_e has waits: the tokens in the order of all their arrivals.

    tokens: the first arrivals of the race, as many as there are waits or all that q has support for, with the
    logarithms of their times and of their q, which may be off by a constant in both.
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
