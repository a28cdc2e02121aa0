"""Verification of a path that was copied from the text. The method's own rule ignores this path.

Where the rule ends, the verification here goes on along the path.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from specdec.methods.residual import Residual
from specdec.methods.verdict import Drafted, Verdict
from specdec.race import Noise


def followed(drafted: Drafted, verdict: Verdict, log_p: Sequence[Tensor], noise: Noise) -> Verdict:
    """The rule's verdict, extended by further tokens as long as they follow the copied path.

    The rule tests no copied node, so its last token has the same distribution as without the path. If the
    path has this token after the last accepted node, the next token is a sample of p at the copied node, and
    so on. The noise of that sample belongs to a node at which no rule has decided. The last token of an ERSD
    round is never that of a drafted child, so ERSD's verdict stays as it is. The kind of a token is
    `sampled` if only a copy was drafted for its place, because no test of a draft has changed p.
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
