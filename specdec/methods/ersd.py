"""Exponential-race speculative decoding: verification of a drafted tree, Algorithm 5 of the paper."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from specdec.methods.verdict import Decision, Drafted, Verdict, descend
from specdec.race import Noise


def verify(drafted: Drafted, log_p: Sequence[Tensor], noise: Noise) -> Verdict:
    """Exponential-race speculative decoding (Algorithm 5 of the paper, corrected): a `Verifier`.

    The winner of a node's race under P is the next token of the text. If a child was drafted with it, that
    child is accepted and verification continues there; otherwise the winner is emitted. The races must be
    those of the text's positions, with which the children were drafted too.
    """
    topology = drafted.topology

    def decide(row: int) -> Decision:
        token_id = noise.race(topology.path(row)).winner(log_p[row])
        return Decision(drafted.child(row, token_id), token_id)

    return descend(topology, decide, "correction")


def sample(drafted: Drafted, log_p: Sequence[Tensor], noise: Noise) -> Verdict:
    """Autoregressive decoding (Algorithm 5 without a tree): the winner of the root's race. A `Verifier`."""
    return verify(drafted, log_p, noise)._replace(kind="sampled")
