"""Greedy speculative decoding: verification of a drafted tree, Algorithm 4 of the paper."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

from specdec.methods.residual import Residual
from specdec.methods.verdict import Attempt, Decision, Drafted, Verdict, descend
from specdec.race import Noise


def verify(drafted: Drafted, log_p: Sequence[Tensor], noise: Noise) -> Verdict:
    """Greedy speculative decoding (Algorithm 4 of the paper, corrected): a `Verifier`.

    At each node the children x are tested in order. A child is accepted if u < p[x] / q[x]. On a rejection p
    becomes the residual, and q is renormalised without x. If all children are rejected, a sample of the
    residual is emitted; at a leaf, a sample of p. For children drafted without probabilities, p is sampled
    once, and the child with this token is accepted. The noise must be independent of the drafting race.
    """
    return one_by_one(drafted, log_p, noise, Residual)


def one_by_one(
    drafted: Drafted,
    log_p: Sequence[Tensor],
    noise: Noise,
    residual: Callable[[Tensor, Tensor | None], Residual],
) -> Verdict:
    """Test the children of each node one after the other, as in Algorithm 4 of the paper.

    residual: a function (log_p, log_q) that creates the state of P and Q at a node.
    """
    topology, token_ids, log_q, *_ = drafted

    def decide(row: int) -> Decision:
        node, candidates, attempts = topology.path(row), drafted.candidates(row), list[Attempt]()
        state = residual(log_p[row], log_q[row])
        if candidates and log_q[row] is None:
            token_id = state.sample(noise.last(node))
            return Decision(drafted.child(row, token_id), token_id)
        for number, child in enumerate(candidates):
            attempts.append(state.test(child, token_ids[child], noise.test(node, number)))
            if attempts[-1].accepted:
                return Decision(child, None, attempts)
            state.reject(token_ids[child], more=number + 1 < len(candidates))
        return Decision(None, state.sample(noise.last(node)), attempts)

    return descend(topology, decide, "residual")
