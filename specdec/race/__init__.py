"""Exponential races. Their random numbers ("noise") are keyed by seed and position, so they are the same on
every device and at every time.

races         winners and arrivals of races, on a CPU and on other devices
noise         all noise of one round, by node
exponentials  the logarithms of the exponentials of all tokens of a vocabulary
keys          the key of the noise of each seed, stream and position
sparse        races over a large vocabulary, which compute only tokens that can still win
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
