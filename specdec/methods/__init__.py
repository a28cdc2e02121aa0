"""Verification of a drafted tree, a file for each method and a `catalogue` of them: pure functions, no model.

All take the topology, the drafted token of each row (row 0 is the root, see `topology`), the target's
log-probabilities per row and their randomness, and return a `Verdict`. They share the drafting and the
walk down the tree, and differ in what is decided at a node. `algorithms` has them as the paper writes them.
"""

from specdec.methods.catalogue import DRAFTING, METHODS
from specdec.methods.ersd import verify_ersd
from specdec.methods.gsd import RULES, Left, Rules, log_rest, residual, sampled, verify_gsd
from specdec.methods.specinfer import verify_specinfer
from specdec.methods.spectr import verify_spectr
from specdec.methods.traversal import verify_traversal
from specdec.methods.verdict import Attempt, Decision, Drafted, Kind, Verdict, Verifier, walk

__all__ = [
    "DRAFTING",
    "METHODS",
    "RULES",
    "Attempt",
    "Decision",
    "Drafted",
    "Kind",
    "Left",
    "Rules",
    "Verdict",
    "Verifier",
    "log_rest",
    "residual",
    "sampled",
    "verify_ersd",
    "verify_gsd",
    "verify_specinfer",
    "verify_spectr",
    "verify_traversal",
    "walk",
]
