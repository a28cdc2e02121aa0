"""Exponential races, keyed by seed and position: the same noise wherever and whenever it is asked for.

races       noise, arrivals and winners
sparse      races of a large vocabulary: only who can win is worked out
splitmix    the hash that all noise comes from
"""

from specdec.race.races import (
    FEW,
    LARGE,
    Noise,
    Races,
    Stream,
    arrivals,
    checked_seed,
    derived_seed,
    log_arrival_times,
    log_exponentials,
    uniform,
    winner,
)

__all__ = [
    "FEW",
    "LARGE",
    "Noise",
    "Races",
    "Stream",
    "arrivals",
    "checked_seed",
    "derived_seed",
    "log_arrival_times",
    "log_exponentials",
    "uniform",
    "winner",
]
