"""Sessions over a Hugging Face model: the caches of one run, for each thing that a model can do.

tree       LeanSession       own cache and own forward, for the decoders that `lean` knows
           CompiledSession   the same as one compiled call on a CPU (`kernels`)
           TreeSession       own cache, attention masks along the tree
           SwitchingSession  two of them, around a length at which the rotary embedding changes
sequence   SequenceSession   own cache, the model's own causal attention
ar         SteppingSession   the model's own cache or state, one token at a time
           PlainSession      no cache at all: a forward over everything, for each token
"""

from specdec.models.sessions.cached import CachedSession, Layout, SequenceSession, TreeSession, inferring
from specdec.models.sessions.compiled import CompiledSession
from specdec.models.sessions.lean import LeanSession
from specdec.models.sessions.stepping import PlainSession, SteppingSession
from specdec.models.sessions.switching import SwitchingSession

__all__ = [
    "CachedSession",
    "CompiledSession",
    "Layout",
    "LeanSession",
    "PlainSession",
    "SequenceSession",
    "SteppingSession",
    "SwitchingSession",
    "TreeSession",
    "inferring",
]
