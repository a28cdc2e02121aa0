"""Immutable records of what happened during decoding, and their form in JSON.

`specdec.stream` yields one `Round` per target call. The page, the statistics, the exports and the API all
read this same record, so they cannot disagree.

Records are plain data (no tensors). The data that is only collected with `detail=True` may be missing:
`Node.q`, `Node.p` and `Round.steps`. Infinite arrival times (of tokens of probability zero) are `None`,
because JSON has no infinity.
"""

from specdec.methods import Kind
from specdec.trace.acceptance import Acceptance
from specdec.trace.generation import Candidate, Generation, Milliseconds, Planted, Timing, json_schema
from specdec.trace.rounds import Arrival, Node, Round, Seconds, Step, Token, Trial
from specdec.trace.values import MOST_WHOLE, Finish, Method, Status

__all__ = [
    "MOST_WHOLE",
    "Acceptance",
    "Arrival",
    "Candidate",
    "Finish",
    "Generation",
    "Kind",
    "Method",
    "Milliseconds",
    "Node",
    "Planted",
    "Round",
    "Seconds",
    "Status",
    "Step",
    "Timing",
    "Token",
    "Trial",
    "json_schema",
]
