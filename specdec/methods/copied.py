"""Verifies a path that was copied from the text. The method's own rule ignores this path; the verification in
this file continues along it from the rule's last token."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from specdec.methods.residual import Residual
from specdec.methods.verdict import Drafted, Verdict
from specdec.race import Noise


def followed(drafted: Drafted, verdict: Verdict, log_p: Sequence[Tensor], noise: Noise) -> Verdict:
    """The rule's verdict, extended by further tokens as long as they follow the copied path.

    The rule tests no copied node, so its last token has the same distribution as without the path. If this
    token is on the path after the last accepted node, the next token is a sample of p at the copied node, and
    so on. The noise of that sample belongs to a node at which the rule has decided nothing. ERSD's verdict
    stays as it is, because the last token of its round is never the token of a drafted child. A token has the
    kind `sampled` if only copied tokens were drafted for its position, because no rejection has changed p.
    """
    rows, token_id, kind = [*verdict.rows], verdict.token_id, verdict.kind
    topology = drafted.topology
    if kind == "residual" and not drafted.candidates([0, *rows][-1]):
        kind = "sampled"
    for copy in drafted.copied:
        if topology.parents[copy] != [0, *rows][-1] or drafted.token_ids[copy] != token_id:
            break
        rows.append(copy)
        token_id = Residual(log_p[copy], None).sample(noise.last(topology.path(copy)))
        kind = "sampled" if topology.children[copy] else "bonus"
    return verdict._replace(rows=tuple(rows), token_id=token_id, kind=kind)
