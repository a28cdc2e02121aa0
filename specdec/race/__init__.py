"""Exponential races, keyed by seed and position: the same noise wherever and whenever it is asked for.

races       noise, arrivals and winners
nodes       noise for each node of a round
draws       tokens that go on arriving: independent draws
sparse      races of a large vocabulary: only who can win is worked out
splitmix    the hash that all noise comes from
"""

from specdec.race.draws import log_waits, with_replacement
from specdec.race.nodes import NodeRaces, node_seed
from specdec.race.races import (
    FEW,
    LARGE,
    Noise,
    Race,
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
    "NodeRaces",
    "Noise",
    "Race",
    "Races",
    "Stream",
    "arrivals",
    "checked_seed",
    "derived_seed",
    "log_arrival_times",
    "log_exponentials",
    "log_waits",
    "node_seed",
    "uniform",
    "winner",
    "with_replacement",
]
