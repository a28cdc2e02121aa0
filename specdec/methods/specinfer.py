"""SpecInfer's multi-step speculative sampling: children drawn independently, tested one by one.

Miao et al., "SpecInfer: Accelerating Large Language Model Serving with Tree-based Speculative Inference and
Verification", 2023. Lossless, and not drafter-invariant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

from specdec.methods.gsd import RULES, Left, Rules, verify_one_by_one
from specdec.methods.verdict import Drafted, OwnNoise, Verdict
from specdec.race import Noise
from specdec.topology import Topology


def whole_draft(left: Left, log_q: Tensor, token_ids: Sequence[int]) -> float:  # noqa: ARG001
    """log c = 0, beside the paper: an independent draw may be any token, those rejected before too."""
    return 0.0


SPECINFER = RULES._replace(log_rest=whole_draft)


def specinfer_round(
    drafted: Drafted,
    log_p: Sequence[Tensor],
    log_e: Noise,  # noqa: ARG001
    uniforms: OwnNoise,
) -> Verdict:
    """SpecInfer's rule on a round of the decoder, beside the paper: a `Verifier`."""
    topology, token_ids, log_q, draws = drafted
    return verify_specinfer(topology, token_ids, draws, log_p, log_q, uniforms.test, uniforms.last)


def verify_specinfer(
    topology: Topology,
    token_ids: Sequence[int],
    draws: Sequence[Sequence[int]],
    log_p: Sequence[Tensor],
    log_q: Sequence[Tensor | None],
    uniform: Callable[[int, int], float],
    residual_uniform: Callable[[int], float],
    rules: Rules = SPECINFER,
) -> Verdict:
    """SpecInfer's rule, beside the paper: GSD's with the rejected tokens left in q.

    draws: by row, the children in the order in which they were drawn independently from q; equal draws are
    one child, which stands there as often as it was drawn. uniform(depth, number): the test of that draw. The
    rest is as in `verify_gsd`.

    At each node draw x is accepted when u < p[x] / q[x]; on rejection p becomes the residual max(p - q, 0). A
    draw that was rejected before can't be accepted, since nothing is left there, and p loses q all the same.
    """
    return verify_one_by_one(topology, token_ids, draws, log_p, log_q, uniform, residual_uniform, rules)
