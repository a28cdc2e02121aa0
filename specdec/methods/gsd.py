"""Greedy speculative decoding: verification of a drafted tree, Algorithm 4 of the paper, in closed form."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from specdec.methods.verdict import Attempt, Decision, Drafted, OwnNoise, Verdict, drawn_from, walk
from specdec.race import Noise, splitmix
from specdec.topology import Topology

_LEAST_REST = 1e-3  # of Q's mass: below, a difference would lose digits
_LEAST_LOG, _MOST_LOG = -600.0, 700.0  # of a factor that a float holds


class Left(NamedTuple):
    """What a node's rejections leave (Algorithm 4 in closed form).

    Of P: max(P - λQ, 0) / S. Of Q: Q / c off the rejected tokens. λ and c are held as logarithms, since at a
    low temperature c may be less than a float holds. By parts of the vocabulary, float64 [part]: weights,
    max(P - λQ, 0), none while that is P; covered, Q / exp(log_scale), none while nobody needed it. sums: of
    the weights, part by part, running; the last is S. log_weight: of P beside Q, 0 but in `traversal`.
    """

    log_level: float = -math.inf  # λ
    log_rest: float = 0.0  # c
    weights: Sequence[Tensor] = ()
    sums: Sequence[float] = (1.0,)
    covered: Sequence[Tensor] = ()
    log_scale: float = 0.0
    log_weight: float = 0.0

    def of(self, log_p: Tensor, log_q: Tensor, token_id: int) -> tuple[float, float]:
        """p and q of this token at this moment; log_p, log_q: [vocabulary]."""
        log_q_x = float(log_q[token_id])
        p = max(math.exp(log_p[token_id]) - math.exp(log_q_x + self.log_level), 0.0) / self.sums[-1]
        return p, math.exp(log_q_x - self.log_rest)


def residual(left: Left, log_p: Tensor, log_q: Tensor) -> tuple[Sequence[Tensor], Sequence[float]]:
    """Weights and sums of `Left` after one more rejection, by which λ grows by S / c (Algorithm 4).

    log_p, log_q: [vocabulary]. The residual of a residual is one of P again, against more of Q; a rejected
    token has nothing left in it. Where it is zero everywhere, p stays (Section 2 of the paper).
    """
    log_growth = math.log(left.sums[-1]) - left.log_rest - left.log_weight + left.log_scale
    growth = math.exp(min(log_growth, _MOST_LOG))
    weights = []
    for number, part in enumerate(splitmix.parts(len(log_p))):
        p = left.weights[number] if left.weights else _exp(log_p[part])  # [part]
        q = left.covered[number] if left.covered else _exp(log_q[part])  # [part]
        weights.append(p.sub(q, alpha=growth).clamp_min_(0))
    sums = running(weights)
    return (weights, sums) if sums[-1] > 0 else (left.weights, left.sums)


def log_rest(left: Left, log_q: Tensor, token_ids: Sequence[int]) -> float:
    """log c: of Q's mass off these tokens (Algorithm 4), of which only the last was drafted from Q / c.

    From logarithms where a difference would lose digits: at a low temperature all of it may round to zero.
    """
    before = math.exp(left.log_rest) if len(token_ids) > 1 else running(left.covered)[-1]
    rest = before - math.exp(log_q[token_ids[-1]])
    if rest > _LEAST_REST:
        return math.log(rest)
    log_q = log_q.to(torch.float64, copy=True)  # [vocabulary]
    log_q[[*token_ids]] = -math.inf
    return float(log_q.logsumexp(-1))


def sampled(weights: Sequence[Tensor], sums: Sequence[float], u: float) -> int:
    """A sample of what is left of P (Algorithm 4): the token whose share of [0, 1) holds u.

    weights, sums: as in `Left`. The shares lie in the order of the tokens.
    """
    limit = u * sums[-1]
    number = _first_beyond(sums, limit)
    before = sums[number - 1] if number else 0.0
    within = weights[number].cpu().numpy().cumsum()  # [part]
    return sum(map(len, weights[:number])) + _first_beyond(within, limit - before)


class Rules(NamedTuple):
    """What Algorithm 4 does with P and Q after a rejection, and at the end; `faults` replaces one of them."""

    residual: Callable[[Left, Tensor, Tensor], tuple[Sequence[Tensor], Sequence[float]]] = residual
    log_rest: Callable[[Left, Tensor, Sequence[int]], float] = log_rest
    sample: Callable[[Sequence[Tensor], Sequence[float], Any], int] = sampled


RULES = Rules()


def greedy_round(
    drafted: Drafted,
    log_p: Sequence[Tensor],
    log_e: Noise,  # noqa: ARG001
    uniforms: OwnNoise,
) -> Verdict:
    """Algorithm 4 on a round of the decoder: a `Verifier`."""
    return verify_gsd(drafted.topology, drafted.token_ids, log_p, drafted.log_q, uniforms.test, uniforms.last)


def verify_gsd(
    topology: Topology,
    token_ids: Sequence[int],
    log_p: Sequence[Tensor],
    log_q: Sequence[Tensor | None],
    uniform: Callable[[int, int], float],
    residual_uniform: Callable[[int], float],
    rules: Rules = RULES,
) -> Verdict:
    """Greedy speculative decoding (Algorithm 4 of the paper, corrected), its rejections in closed form.

    token_ids, log_p: as in `verify_ersd`. log_q: by row, [vocabulary], the distributions that the children
    were drafted from; those of leaves are not read, and None stands for children drafted without chance.
    uniform(depth, child_index): the acceptance uniform of that child. residual_uniform(depth): the one that
    the last token is sampled with. Neither may depend on the drafting race.

    At each node the children x are tried in order: accept when u < p[x] / q[x]; on rejection p becomes
    the residual and q is renormalised without x. All rejected: emit a sample of the residual; at a
    leaf: a sample of p. A child without chance has q = 1: p is sampled once, and accepted if it is a child.
    """
    return verify_one_by_one(
        topology, token_ids, topology.children, log_p, log_q, uniform, residual_uniform, rules
    )


def verify_one_by_one(
    topology: Topology,
    token_ids: Sequence[int],
    draws: Sequence[Sequence[int]],
    log_p: Sequence[Tensor],
    log_q: Sequence[Tensor | None],
    uniform: Callable[[int, int], float],
    residual_uniform: Callable[[int], float],
    rules: Rules,
) -> Verdict:
    """The tests of Algorithm 4 at each node, one after the other, of the rows that `draws` has for it.

    draws: by row, its children in the order of their tests; one that was drawn twice stands there twice.
    uniform(depth, number): of that test. The rest is as in `verify_gsd`.
    """

    def decide(row: int) -> Decision:
        depth, tested, left, attempts = topology.depths[row], draws[row], Left(), []
        p = log_p[row]  # [vocabulary]
        if tested and log_q[row] is None:
            return _sampled_once(p, {token_ids[child]: child for child in tested}, residual_uniform(depth))
        q = drawn_from(log_q, row, p.device) if tested else p  # [vocabulary]; a leaf has no use for it
        for number, child in enumerate(tested, start=1):
            if number > 1:
                left = without(left, q, [token_ids[tried] for tried in tested[: number - 1]], rules)
            u, (p_x, q_x) = uniform(depth, number - 1), left.of(p, q, token_ids[child])
            attempts.append(Attempt(child, u, p_x, q_x, u * q_x < p_x))
            if attempts[-1].accepted:
                return Decision(child, None, attempts)
            left = after_rejection(left, p, q, number < len(tested), rules)
        return Decision(None, emitted(left, p, residual_uniform(depth), rules), attempts)

    return walk(topology, decide, "residual")


def _sampled_once(log_p: Tensor, children: Mapping[int, int], u: float) -> Decision:
    """The child by token that is p's sample, where there is one."""
    token_id = emitted(Left(), log_p, u)
    child = children.get(token_id)
    return Decision(child, token_id if child is None else None)


def after_rejection(left: Left, log_p: Tensor, log_q: Tensor, more: bool, rules: Rules = RULES) -> Left:
    """What a rejection leaves of P (Algorithm 4); more: whether another child will be tested."""
    if more and not left.covered:
        left = left._replace(covered=parts_of(log_q))
    log_level, log_rest, weights, sums, covered, log_scale, log_weight = left
    now, its_sums = rules.residual(left, log_p, log_q)
    if now is weights:
        return left
    if more:
        log_level = float(np.logaddexp(log_level, math.log(sums[-1]) - log_rest - log_weight))
    return Left(log_level, log_rest, now, its_sums, covered, log_scale, log_weight)


def without(left: Left, log_q: Tensor, token_ids: Sequence[int], rules: Rules = RULES) -> Left:
    """What these tokens leave of Q (Algorithm 4), of which the last was rejected just now."""
    log_level, _, weights, sums, covered, log_scale, log_weight = left
    log_rest = rules.log_rest(left, log_q, token_ids)
    if log_rest - log_scale < _LEAST_LOG:
        covered, log_scale = parts_of(log_q, log_rest), log_rest
    return Left(log_level, log_rest, weights, sums, covered, log_scale, log_weight)


def emitted(left: Left, log_p: Tensor, u: float, rules: Rules = RULES) -> int:
    """The last token of a round (Algorithm 4): a sample of what is left of P, of P itself at a leaf."""
    if left.weights:
        return rules.sample(left.weights, left.sums, u)
    weights = parts_of(log_p)
    return rules.sample(weights, running(weights), u)


def _first_beyond(sums: Sequence[float] | np.ndarray, limit: float) -> int:
    """The first of these running sums above `limit`; where rounding leaves none, the last that adds any."""
    first = bisect_right(sums, limit)
    return first if first < len(sums) else bisect_left(sums, sums[-1])


def running(weights: Sequence[Tensor]) -> list[float]:
    """The sums of the parts of a law so far, as in `Left` (Algorithm 4)."""
    return list(accumulate(float(part.sum()) for part in weights))


def parts_of(log_p: Tensor, log_scale: float = 0.0) -> list[Tensor]:
    """p / exp(log_scale) by parts of the vocabulary, as in `Left` (Algorithm 4)."""
    return [_exp(log_p[part], log_scale) for part in splitmix.parts(len(log_p))]


def _exp(log_p: Tensor, log_scale: float = 0.0) -> Tensor:
    """p / exp(log_scale), float64, and no view."""
    log_p = log_p.to(torch.float64, copy=True)
    return (log_p.sub_(log_scale) if log_scale else log_p).exp_()
