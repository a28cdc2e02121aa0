"""Speculative decoding via exponential races: an exact, readable decoder core."""

from specdec import theory, topology, verify
from specdec.decode import generate, measure_acceptance, stream
from specdec.optimal import optimal_topology
from specdec.pair import ModelPair, load_pair
from specdec.topology import Topology
from specdec.trace import Generation, Round

__all__ = [
    "Generation",
    "ModelPair",
    "Round",
    "Topology",
    "generate",
    "load_pair",
    "measure_acceptance",
    "optimal_topology",
    "stream",
    "theory",
    "topology",
    "verify",
]
