"""Verification of a drafted tree, GSD and ERSD side by side: pure functions, no model.

Both take the topology, the drafted token of each row (row 0 is the root, see `topology`), the target's
log-probabilities per row and their randomness, and return a `Verdict`. They share the drafting and differ
here only.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import NamedTuple

import torch
from torch import Tensor

from specdec import splitmix
from specdec.race import Noise, winner
from specdec.topology import Topology
from specdec.trace import Kind

_ALL = slice(None)
_LEAST_MASS = 1e-290  # of float64 weights: below, they lose digits


class Attempt(NamedTuple):
    """One acceptance test of GSD: row's token accepted when `u < p / q`, p and q at that moment."""

    row: int
    u: float
    p: float
    q: float
    accepted: bool


class Verdict(NamedTuple):
    """What verification decided.

    rows: the accepted rows, from the root's child downwards. token_id: the last token of the round; None
    where the text ended with an accepted token. kind: `bonus` (accepted to a leaf), else `residual` (GSD)
    or `correction` (ERSD). attempts: the acceptance tests of GSD, in order.
    """

    rows: tuple[int, ...]
    token_id: int | None
    kind: Kind
    attempts: tuple[Attempt, ...] = ()


def verify_ersd(
    topology: Topology, token_ids: Sequence[int], log_p: Sequence[Tensor], log_e: Noise
) -> Verdict:
    """Exponential-race speculative decoding (Algorithm 5 of the paper, corrected).

    token_ids: [1 + k], the root's is not looked at. log_p: [1 + k, vocabulary], row r the target's
    distribution after row r. log_e: the race of each depth, depth + 1 of them, the same ones that the
    children of that depth were drafted with: log-exponentials [depth + 1, vocabulary], or sparse races.

    At each node the race's winner under P is the token of the text. If a child was drafted with that
    token, it is accepted and verification moves on to it; else the winner is emitted.
    """
    row, rows = 0, []
    while True:
        token_id = int(winner(log_p[row], log_e[topology.depths[row]]))
        children = topology.children[row]
        accepted = next((child for child in children if token_ids[child] == token_id), None)
        if accepted is None:
            return Verdict(tuple(rows), token_id, "correction" if children else "bonus")
        rows.append(row := accepted)


def verify_gsd(
    topology: Topology,
    token_ids: Sequence[int],
    log_p: Sequence[Tensor],
    log_q: Sequence[Tensor | None],
    uniform: Callable[[int, int], float],
    residual_uniform: Callable[[int], float],
) -> Verdict:
    """Greedy speculative decoding (Algorithm 4 of the paper, corrected).

    token_ids, log_p: as in `verify_ersd`. log_q: by row, [vocabulary], the distributions that the
    children were drafted from; those of leaves are not read. uniform(depth, child_index): the acceptance
    uniform of that child. residual_uniform(depth): the one that the last token is sampled with. Neither may
    depend on the drafting race.

    At each node the children x are tried in order: accept when u < p[x] / q[x]; on rejection p becomes
    the residual and q is renormalised without x. All rejected: emit a sample of the residual; at a
    leaf: a sample of p.
    """
    row, rows, attempts = 0, [], []
    while True:
        depth, children, accepted = topology.depths[row], topology.children[row], None
        p, q = Remaining(log_p[row]), Undrawn(log_q[row])
        for child_index, child in enumerate(children):
            x = token_ids[child]
            p_x = p.probability(x)  # takes in the last rejection, and so before q changes
            if child_index:
                q.reject(token_ids[child - 1])  # children are neighbours
            q_x, u = q.probability(x), uniform(depth, child_index)
            attempts.append(Attempt(child, u, p_x, q_x, u * q_x < p_x))
            if attempts[-1].accepted:
                accepted = child
                break
            p.reject(q)
        if accepted is None:
            token_id = p.sample(residual_uniform(depth))
            return Verdict(tuple(rows), token_id, "residual" if children else "bonus", tuple(attempts))
        rows.append(row := accepted)


class Remaining:
    """The target's distribution at a node after its rejections: max(p - q, 0), normalised, for each.

    Where that is zero everywhere, p stays (Section 2 of the paper). Probabilities are worked out where they
    are looked at: after the last rejection these are few tokens, not the vocabulary.
    """

    def __init__(self, log_p: Tensor):
        self._log_p = log_p
        self._weights: Tensor | None = None  # after the rejections before the last one, not normalised
        self._mass = 1.0
        self._rejected: Undrawn | None = None  # what the last rejection was drafted from

    def probability(self, token_id: int) -> float:
        """p[token_id]."""
        self._settle()
        if self._weights is None:
            return math.exp(self._log_p[token_id])
        return float(self._weights[token_id]) / self._mass

    def reject(self, q: Undrawn) -> None:
        """Go on with the residual: without what q covers. q may change after the next look at p."""
        self._settle()
        self._rejected = q

    def sample(self, u: float) -> int:
        """The token whose share of [0, 1) holds u, the shares lying in the order of the tokens."""
        parts = splitmix.parts(len(self._log_p))
        weights = [self._left(part) for part in parts]
        sums = list(accumulate(float(part.sum()) for part in weights))
        if self._rejected is not None and not sums[-1] > 0:
            self._rejected = None
            return self.sample(u)
        limit = u * sums[-1]
        number = _first_beyond(sums, limit)
        before = sums[number - 1] if number else 0.0
        within = weights[number].cpu().numpy().cumsum()
        return parts[number].start + _first_beyond(within, limit - before)

    def _settle(self) -> None:
        """Take in the last rejection for all tokens."""
        if self._rejected is not None:
            left = self._left(_ALL)
            mass = float(left.sum())
            if mass > 0:
                self._weights, self._mass = left, mass
            self._rejected = None

    def _left(self, tokens: slice) -> Tensor:
        """Weights after the last rejection, float64, not normalised."""
        before = _exp(self._log_p[tokens]) if self._weights is None else self._weights[tokens]
        if self._rejected is None:
            return before
        covered, mass = self._rejected.weights(tokens)
        return before.sub(covered.to(before.device), alpha=self._mass / mass).clamp_min_(0)


def _first_beyond(sums: Sequence[float], limit: float) -> int:
    """The first of these running sums above `limit`; where rounding leaves none, the last that adds any."""
    return min(bisect_right(sums, limit), bisect_left(sums, sums[-1]))


class Undrawn:
    """The draft's distribution at a node without its rejected children: each was drawn from what was left."""

    def __init__(self, log_q: Tensor):
        self._log_q = log_q
        self._weights: Tensor | None = None  # of all tokens, not normalised, once they were asked for
        self._mass = 1.0
        self._rejected: list[int] = []

    def probability(self, token_id: int) -> float:
        """q[token_id]."""
        if self._weights is None:
            return math.exp(self._log_q[token_id])
        return float(self._weights[token_id]) / self._mass

    def reject(self, token_id: int) -> None:
        """Go on conditioned on not drawing this token."""
        self._rejected.append(token_id)
        weights, _ = self.weights(_ALL)
        weights[token_id] = 0
        self._mass = float(weights.sum())
        if self._mass < _LEAST_MASS:
            self._start_again()

    def weights(self, tokens: slice) -> tuple[Tensor, float]:
        """What is proportional to the tokens' probabilities, float64, and its sum over all tokens."""
        if self._weights is None and tokens is _ALL:
            self._weights = _exp(self._log_q)
        if self._weights is None:
            return _exp(self._log_q[tokens]), self._mass
        return self._weights[tokens], self._mass

    def _start_again(self) -> None:
        """From logarithms: at a low temperature all but one token may round to zero."""
        log_q = self._log_q.to(torch.float64, copy=True)
        log_q[self._rejected] = -math.inf
        left = log_q.log_softmax(-1)
        # NaN: the rejected tokens were all there was
        self._log_q = log_q if left.isnan().any() else left
        self._weights, self._mass = _exp(self._log_q), 1.0


def _exp(log_p: Tensor) -> Tensor:
    return log_p.to(torch.float64, copy=True).exp_()
