"""SpecInfer's multi-step speculative sampling: children drawn independently, tested one by one.

Miao et al., "SpecInfer: Accelerating Large Language Model Serving with Tree-based Speculative Inference and
Verification", 2023. The rule is lossless, but not drafter-invariant.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from specdec.methods.gsd import one_by_one
from specdec.methods.residual import Residual
from specdec.methods.verdict import Drafted, Verdict
from specdec.race import Noise


def verify(drafted: Drafted, log_p: Sequence[Tensor], noise: Noise) -> Verdict:
    """SpecInfer's rule (not in the paper): GSD, but rejected tokens stay in q. A `Verifier`.

    At each node a draw x is accepted when u < p[x] / q[x]; on rejection p becomes the residual max(p - q, 0).
    A second draw of a rejected token is also rejected, because the token's p is then 0; q is then subtracted
    from p once more.
    """
    return one_by_one(drafted, log_p, noise, ResidualOfDraws)


class ResidualOfDraws(Residual):
    """A `Residual` whose q does not change after a rejection, because a later independent draw may be the
    same token."""

    def remove_from_draft(self, token_id: int) -> None:
        """Does nothing: q keeps the token."""
