"""Codecs that are relatives of speculative decoding: channel simulation and Tunstall codes.

    simulation            greedy rejection sampling and the Poisson functional representation
    index_distributions   distributions of the indices that are sent, with their entropies
    codes                 codes for these indices
    tunstall              Tunstall codes
    checked               checks of the codecs' arguments

The range coder is constriction's: `pip install 'specdec-races[channel]'`.
"""

from importlib.util import find_spec

if find_spec("constriction") is None:
    raise ImportError("specdec.channel needs constriction: pip install 'specdec-races[channel]'")

from specdec.channel.checked import METHODS, Method
from specdec.channel.codes import decode_indices, encode_elias_gamma, encode_indices, zipf_distribution
from specdec.channel.index_distributions import IndexDistributions, index_distributions
from specdec.channel.simulation import (
    DECODERS,
    ENCODERS,
    MOST_PROPOSALS,
    ChannelStream,
    Message,
    greedy_rejection_decode,
    greedy_rejection_encode,
    poisson_functional_decode,
    poisson_functional_encode,
)
from specdec.channel.tunstall import TunstallCode

__all__ = [
    "DECODERS",
    "ENCODERS",
    "METHODS",
    "MOST_PROPOSALS",
    "ChannelStream",
    "IndexDistributions",
    "Message",
    "Method",
    "TunstallCode",
    "decode_indices",
    "encode_elias_gamma",
    "encode_indices",
    "greedy_rejection_decode",
    "greedy_rejection_encode",
    "index_distributions",
    "poisson_functional_decode",
    "poisson_functional_encode",
    "zipf_distribution",
]
