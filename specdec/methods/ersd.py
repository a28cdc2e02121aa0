"""Exponential-race speculative decoding: verification of a drafted tree, Algorithm 5 of the paper."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from specdec.methods.verdict import Decision, Drafted, OwnNoise, Verdict, walk
from specdec.race import Noise, winner
from specdec.topology import Topology


def race_round(drafted: Drafted, log_p: Sequence[Tensor], log_e: Noise, uniforms: OwnNoise) -> Verdict:  # noqa: ARG001
    """Algorithm 5 on a round of the decoder: a `Verifier`."""
    return verify_ersd(drafted.topology, drafted.token_ids, log_p, log_e)


def race_alone(drafted: Drafted, log_p: Sequence[Tensor], log_e: Noise, uniforms: OwnNoise) -> Verdict:
    """Autoregressive decoding (beside Algorithm 5): the winner of the root's race. A `Verifier`."""
    return race_round(drafted, log_p, log_e, uniforms)._replace(kind="sampled")


def verify_ersd(
    topology: Topology, token_ids: Sequence[int], log_p: Sequence[Tensor], log_e: Noise
) -> Verdict:
    """Exponential-race speculative decoding (Algorithm 5 of the paper, corrected).

    token_ids: [1 + k], the root's is not looked at. log_p: [1 + k, vocabulary], row r the target's
    distribution after row r. log_e: the race of each depth, depth + 1 of them, the same ones that the
    children of that depth were drafted with: log-exponentials [depth + 1, vocabulary], or sparse races.
    """

    def decide(row: int) -> Decision:
        # The winner is the token of the text: a child that was drafted with it is accepted.
        token_id = int(winner(log_p[row], log_e[topology.depths[row]]))
        accepted = (child for child in topology.children[row] if token_ids[child] == token_id)
        return Decision(next(accepted, None), token_id)

    return walk(topology, decide, "correction")
