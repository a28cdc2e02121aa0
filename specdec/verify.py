"""The paper's verification, Algorithms 4 and 5, as pure functions of tensors and randomness."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from torch import Tensor

from specdec.methods import Attempt, Drafted, Verdict, ersd, gsd
from specdec.race import Node, Race, race_of
from specdec.topology import Topology

__all__ = ["Attempt", "Verdict", "verify_ersd", "verify_gsd"]


def verify_gsd(
    topology: Topology,
    token_ids: Sequence[int],
    log_p: Sequence[Tensor],
    log_q: Sequence[Tensor | None],
    uniform: Callable[[int, int], float],
    residual_uniform: Callable[[int], float],
) -> Verdict:
    """Greedy speculative decoding (Algorithm 4 of the paper, corrected): see `methods.gsd.verify`.

    token_ids: [1 + k]; the root's is not read. log_p: [1 + k, vocabulary], the target's log-probabilities
    after each row. log_q: for each row, the log-probabilities [vocabulary] from which its children were
    drafted; None for children drafted without probabilities; not read at leaves. uniform(depth, child_index):
    the uniform that tests this child. residual_uniform(depth): the uniform that samples the last token.
    Neither may depend on the race with which the children were drafted.
    """
    _check_numbers(*log_p, *log_q)
    noise = _GivenNoise(uniform=uniform, residual_uniform=residual_uniform)
    return gsd.verify(Drafted(topology, token_ids, log_q), log_p, noise)


def verify_ersd(
    topology: Topology, token_ids: Sequence[int], log_p: Sequence[Tensor], log_e: Sequence[Tensor]
) -> Verdict:
    """Exponential-race speculative decoding (Algorithm 5 of the paper, corrected): see `methods.ersd.verify`.

    token_ids, log_p: as in `verify_gsd`. log_e: [depth + 1, vocabulary], the log-exponentials of the race at
    each depth, with which the children of the nodes at this depth were drafted.
    """
    _check_numbers(*log_p, *log_e)
    none = [None] * len(log_p)
    return ersd.verify(Drafted(topology, token_ids, none), log_p, _GivenNoise(log_e=log_e))


def _check_numbers(*rows: Tensor | None) -> None:
    for row in rows:
        if row is not None and row.isnan().any():
            raise ValueError("log_p, log_q or log_e holds NaN")


class _GivenNoise(NamedTuple):
    """A `Noise` made of values that the caller gives for each depth."""

    uniform: Callable[[int, int], float] = lambda *_: 0.5
    residual_uniform: Callable[[int], float] = lambda *_: 0.5
    log_e: Sequence[Tensor] = ()

    def race(self, node: Node) -> Race:
        return race_of(self.log_e[len(node)])

    def test(self, node: Node, child_index: int) -> float:
        return self.uniform(len(node), child_index)

    def last(self, node: Node) -> float:
        return self.residual_uniform(len(node))
