"""The paper's relatives as working codecs: channel simulation and Tunstall codes.

simulation  greedy rejection sampling and the Poisson functional representation
index_laws  the laws of the indices that are sent
codes       codes for the indices that are sent
tunstall    Tunstall codes
report      `python -m specdec.channel`

The range coder is constriction's: `pip install 'specdec-races[channel]'`.
"""

from importlib.util import find_spec

if find_spec("constriction") is None:
    raise ImportError("specdec.channel needs constriction: pip install 'specdec-races[channel]'")

from specdec.channel.checked import METHODS, Method
from specdec.channel.codes import (
    decode_elias_gamma,
    decode_indices,
    encode_elias_gamma,
    encode_indices,
    zipf_law,
)
from specdec.channel.index_laws import IndexLaws, index_laws
from specdec.channel.simulation import (
    DECODERS,
    ENCODERS,
    MOST_PROPOSALS,
    ChannelStream,
    Message,
    Transmission,
    greedy_rejection_decode,
    greedy_rejection_encode,
    poisson_functional_decode,
    poisson_functional_encode,
    transmit,
)
from specdec.channel.tunstall import TunstallCode

__all__ = [
    "DECODERS",
    "ENCODERS",
    "METHODS",
    "MOST_PROPOSALS",
    "ChannelStream",
    "IndexLaws",
    "Message",
    "Method",
    "Transmission",
    "TunstallCode",
    "decode_elias_gamma",
    "decode_indices",
    "encode_elias_gamma",
    "encode_indices",
    "greedy_rejection_decode",
    "greedy_rejection_encode",
    "index_laws",
    "poisson_functional_decode",
    "poisson_functional_encode",
    "transmit",
    "zipf_law",
]
