"""The distributions P and Q at one node, and how rejections change them (Algorithm 4 of the paper), in
closed form.

The residual of a residual is again a residual of P, with more of Q subtracted. So after any number of
rejections

    P has become max(P - λQ, 0) / S       Q has become Q / c, without the rejected tokens

where each rejection adds S / c to λ. λ and c are stored as logarithms, because at a low temperature c may be
too small for a float. The arithmetic is numpy's, whose calls take half the time of torch's.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor

from specdec.methods.verdict import Attempt
from specdec.race import splitmix

_LEAST_REST = 1e-3
"""Rejections leave the mass c of Q. While c is above this limit, it is computed as a difference. A smaller
difference would lose digits, so c is then summed again."""
_LEAST_LOG, _MOST_LOG = -600.0, 700.0
"""The smallest and the largest logarithm of a factor, chosen so that the factor itself fits into a float."""
_RUN = 64
"""The search for a sampled token first adds up blocks of this many weights, and then searches one block.
Computing all running sums would take longer."""


class Residual:
    """P and Q at one node. It tests a child, changes P and Q after a rejection, and samples the last token.

    log_p, log_q: [vocabulary], never changed; log_q may be None if no child will be tested. weights: max(P -
    λQ, 0) in parts of the vocabulary, float64 [part]; empty until something is subtracted. sums: the running
    sums of the weights at the ends of the parts; the last is S. rejected: the rejected tokens, in order.
    """

    def __init__(self, log_p: Tensor, log_q: Tensor | None):
        self.log_p = log_p
        self.log_q = log_p if log_q is None else log_q.to(log_p.device)  # the draft may be on another device
        self.weights: Sequence[np.ndarray] = ()
        self.sums: Sequence[float] = (1.0,)
        self.rejected: list[int] = []
        self.log_level, self.log_rest = -math.inf, 0.0  # λ and c
        # Q / exp(log_scale) by parts; computed when a rejection needs it and another child will be tested
        self._q_parts: Sequence[np.ndarray] = ()
        self._log_scale = 0.0

    def probabilities(self, token_id: int) -> tuple[float, float]:
        """The token's p and q at present, after the rejections so far."""
        log_q = float(self.log_q[token_id])
        p = max(math.exp(self.log_p[token_id]) - math.exp(log_q + self.log_level), 0.0) / self.sums[-1]
        return p, math.exp(log_q - self.log_rest)

    def test(self, row: int, token_id: int, u: float) -> Attempt:
        """The test of Algorithm 4 of the paper: the token of this row is accepted when u < p / q."""
        p, q = self.probabilities(token_id)
        return Attempt(row, u, p, q, u * q < p)

    def reject(self, token_id: int, more: bool, weight: float = 1.0) -> float:
        """Removes a rejected token: P becomes its residual, and Q loses the token.

        more: whether another child will be tested. weight: the weight of P relative to Q, which is 1 except
        in traversal verification. Returns Σ max(weight P - Q, 0), with P and Q from before the call. If
        rounding makes this sum 0, P stays as it was (Section 2 of the paper).
        """
        if more and not self._q_parts:
            self._q_parts = parts_of(self.log_q)
        excess = self.subtract_draft(more, weight)
        self.rejected.append(token_id)
        if more:
            self.remove_from_draft(token_id)
        return excess

    def subtract_draft(self, more: bool, weight: float) -> float:
        """Replaces P by max(weight P - Q, 0), normalised. Q does not change.

        Arguments and result as in `reject`.
        """
        old_sum, log_weight = self.sums[-1], math.log(weight)
        log_growth = math.log(old_sum) - self.log_rest - log_weight
        growth = math.exp(min(log_growth + self._log_scale, _MOST_LOG))
        weights = []
        p_parts, q_parts = self.weights or _parts(self.log_p), self._q_parts or _parts(self.log_q)
        with np.errstate(over="ignore"):  # the p of a rejected token is 0
            for p, q in zip(p_parts, q_parts, strict=True):
                excess = p - growth * q  # [part]
                weights.append(np.maximum(excess, 0, out=excess))
        if not self.replace(weights):
            return 0.0
        if more:
            self.log_level = float(np.logaddexp(self.log_level, log_growth))
        return weight / old_sum * self.sums[-1]

    def remove_from_draft(self, token_id: int) -> None:
        """Renormalises Q without this token, which was drafted from the Q before the call."""
        mass = math.exp(self.log_rest) if len(self.rejected) > 1 else _running(self._q_parts)[-1]
        rest = mass - math.exp(self.log_q[token_id])
        if rest > _LEAST_REST:
            self.log_rest = math.log(rest)
        else:  # summed from logarithms, because at a low temperature the difference may round to zero
            log_q = self.log_q.to(torch.float64, copy=True)  # [vocabulary]
            log_q[self.rejected] = -math.inf
            self.log_rest = float(log_q.logsumexp(-1))
        if self.log_rest - self._log_scale < _LEAST_LOG:
            self._q_parts, self._log_scale = parts_of(self.log_q, self.log_rest), self.log_rest

    def replace(self, weights: Sequence[np.ndarray]) -> bool:
        """Replaces P by these weights, which are given in parts of the vocabulary.

        If all weights are zero, P does not change. Returns whether P was replaced.
        """
        sums = _running(weights)
        if sums[-1] > 0:
            self.weights, self.sums = weights, sums
        return sums[-1] > 0

    def sample(self, u: float) -> int:
        """A sample of P, by inversion: the token whose interval of P's running sums holds the uniform u."""
        weights, sums = self.weights, self.sums
        if not weights:
            weights = parts_of(self.log_p)
            sums = _running(weights)
        limit = u * sums[-1]
        number = _first_beyond(sums, limit)
        earlier = sums[number - 1] if number else 0.0
        return sum(map(len, weights[:number])) + _token_at(weights[number], limit - earlier)


def parts_of(log_p: Tensor, log_scale: float = 0.0) -> list[np.ndarray]:
    """p / exp(log_scale) as a list of parts of the vocabulary, float64 [part] each (Algorithm 4 of the
    paper)."""
    return list(_parts(log_p, log_scale))


def _parts(log_p: Tensor, log_scale: float = 0.0) -> Iterator[np.ndarray]:
    values = log_p.cpu().numpy()
    for part in splitmix.parts(len(values)):
        yield _exp(values[part].astype(np.float64), log_scale)


def _exp(log_p: np.ndarray, log_scale: float) -> np.ndarray:
    """p / exp(log_scale), computed in place; infinite at a rejected token that had nearly all mass of Q."""
    if not log_scale:
        return np.exp(log_p, out=log_p)
    with np.errstate(over="ignore"):
        return np.exp(np.subtract(log_p, log_scale, out=log_p), out=log_p)


def _running(weights: Sequence[np.ndarray]) -> list[float]:
    return list(accumulate(float(part.sum()) for part in weights))


def _token_at(weights: np.ndarray, limit: float) -> int:
    """The index of the first running sum of the weights that is above `limit`. Blocks of `_RUN` weights are
    searched first."""
    end = len(weights) // _RUN * _RUN
    sums = np.append(weights[:end].reshape(-1, _RUN).sum(1), weights[end:].sum()).cumsum()
    run = _first_beyond(sums, limit)
    within = weights[run * _RUN : (run + 1) * _RUN].cumsum()
    return run * _RUN + _first_beyond(within, limit - (sums[run - 1] if run else 0.0))


def _first_beyond(sums: Sequence[float] | np.ndarray, limit: float) -> int:
    """Index of the first running sum above `limit`. If rounding leaves none, the index of the last weight
    above 0."""
    first = bisect_right(sums, limit)
    return first if first < len(sums) else bisect_left(sums, sums[-1])
