"""Exponential races. Their random numbers ("noise") are keyed by seed and position, and the same wherever and
whenever they are drawn.

races         winners and arrivals of races, on a CPU and on other devices
noise         all noise of one round, by node
exponentials  the logarithms of the exponentials of all tokens of a vocabulary
keys          the key that each seed, stream and position gives to its noise
sparse        races of a large vocabulary: only tokens that can still win are computed
splitmix      the hash from which all noise comes
"""

from specdec.race.exponentials import log_exponentials
from specdec.race.keys import Stream, checked_seed, derived_seed, node_seed, uniform
from specdec.race.noise import Node, Noise, PositionNoise, Races, RoundNoise
from specdec.race.races import FEW, Arrivals, Race, first_of, orders_of, race_of

__all__ = [
    "FEW",
    "Arrivals",
    "Node",
    "Noise",
    "PositionNoise",
    "Race",
    "Races",
    "RoundNoise",
    "Stream",
    "checked_seed",
    "derived_seed",
    "first_of",
    "log_exponentials",
    "node_seed",
    "orders_of",
    "race_of",
    "uniform",
]
