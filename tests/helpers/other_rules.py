"""Lossless rules of other papers, as plain functions of tables in the notation of `algorithms`.

    traversal   any tree, leaves first, several positions decided at once
    block       the same rule on a sequence, in its own form
    specinfer   children drawn independently, tested one by one
    spectr      children drawn independently, tested against one threshold

The tests check them by enumeration in rationals and compare `methods` with them on the same randomness.
Traversal may verify many nodes of one depth. Therefore each node has its own race and its own uniform.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set

import numpy as np

from specdec.algorithms import Path, Text, draft, given, residual, sample, without

Table = np.ndarray
Row = Sequence[float]
Rows = Sequence[Row]
Choice = tuple[int | None, int | None]
Decide = Callable[[Table, Table, Sequence[int], Row, float], Choice]
"""From P, Q, the draws, their uniforms and one more uniform: the accepted token, or None and the emitted."""


def traversal(
    x: Text, Q: Table, P: Table, tau: Set[Path], e: Mapping[Path, Table], U: Mapping[Path, float], u: float
) -> Text:
    """Traversal verification (Weng et al., "Traversal Verification for Speculative Tree Decoding", 2025).

    Not in the paper. e, U: the race and the test of each node by its path. u samples the last token. Leaves
    come first: a leaf is accepted with its whole path, or deleted, which changes its parent's P and Q.
    """
    x_draft = draft(x, Q, tau, e)
    lines = {j: tuple(x_draft[j[: i + 1]] for i in range(len(j))) for j in [(), *x_draft]}
    p, q = ({j: given(source, x + line) for j, line in lines.items()} for source in (P, Q))
    remaining = dict(x_draft)
    w: dict[Path, float] = {(): 1}  # a node's weight is fixed when the node is first visited
    while True:
        j: Path = ()
        while (children := [child for child in remaining if child[:-1] == j]) != []:
            parent, j = j, min(children)
            w.setdefault(j, min(1, w[parent] * p[parent][remaining[j]] / q[parent][remaining[j]]))
        if j == () or U[j] < w[j]:
            return (*lines[j], sample(p[j], u))
        token, parent = remaining.pop(j), j[:-1]
        rest = np.maximum(w[parent] * p[parent] - q[parent], 0)
        S = rest.sum()
        p[parent] = rest / S if S > 0 else p[parent]
        w[parent] = 1 if parent == () else S / (S + 1 - w[parent]) if S > 0 else 0
        q[parent] = without(q[parent], token)


def block(x: Text, Q: Table, P: Table, k: int, e: Mapping[Path, Table], U: Row, u: float) -> Text:
    """Block verification of a sequence (Sun et al., 2024).

    Not in the paper. U: [k + 1], the test of each number of accepted tokens. u samples the token after them.
    """
    x_draft = draft(x, Q, {(0,) * depth for depth in range(k + 1)}, e)
    w: float = 1
    line: Text = ()
    accepted: Text = ()
    rest = p = given(P, x)
    for i in range(len(x_draft) + 1):
        last, p = i == len(x_draft), given(P, x + line)  # [|Ω|]
        q = np.zeros_like(p) if last else given(Q, x + line)  # [|Ω|]
        excess = np.maximum(w * p - q, 0)
        S = excess.sum()
        h = w if last else S / (S + 1 - w) if S > 0 else 0
        if i == 0 or U[i] < h:
            accepted, rest = line, excess / S if S > 0 else p
        if not last:
            token = x_draft[(0,) * (i + 1)]
            w, line = min(1, w * p[token] / q[token]), (*line, token)
    return (*accepted, sample(rest, u))


def specinfer(x: Text, Q: Table, P: Table, tau: Set[Path], e: Table, again: Rows, U: Rows, u: Row) -> Text:
    """SpecInfer's multi-step speculative sampling (Miao et al., "SpecInfer", 2023).

    Not in the paper. It is Algorithm 4 with independent children, so that Q stays after rejections.
    e, again: the noise of the draws, see `independent`. U[d][i]: the test of draw i at depth d.
    """

    def decide(p: Table, q: Table, tokens: Sequence[int], U: Row, u: float) -> Choice:
        for token, test in zip(tokens, U, strict=False):
            if p[token] / q[token] > test:
                return token, None
            p = residual(p, q)
        return None, sample(p, u)

    return _independently(decide, x, Q, P, tau, e, again, U, u)


def spectr(x: Text, Q: Table, P: Table, tau: Set[Path], e: Table, again: Rows, U: Rows, u: Row) -> Text:
    """SpecTr's k-SEQ (Sun et al., "SpecTr: Fast Speculative Decoding via Optimal Transport", 2023).

    Not in the paper. Arguments as in `specinfer`. One threshold ρ for all n draws of a node.
    """

    def decide(p: Table, q: Table, tokens: Sequence[int], U: Row, u: float) -> Choice:
        n = len(tokens)
        if not n:
            return None, sample(p, u)
        rho = threshold(p, q, n)
        for token, test in zip(tokens, U, strict=False):
            if p[token] / (rho * q[token]) > test:
                return token, None
        both = np.minimum(q, p / rho)
        accepted = (1 - (1 - both.sum()) ** n) / both.sum() if both.sum() > 0 else n
        return None, sample(residual(p, both * accepted), u)

    return _independently(decide, x, Q, P, tau, e, again, U, u)


def threshold(P: Table, Q: Table, n: int) -> float:
    """ρ of k-SEQ for n draws (SpecTr, not in the paper): 1 - (1 - β)^n = ρβ with β = Σ min(Q, P/ρ).

    By bisection, its upper end: the rule is lossless for any ρ from the root up.
    """
    low, high = P.sum(), n * P.sum()  # the bounds 1 and n, as numbers of P's type
    for _ in range(40):
        rho = (low + high) / 2
        beta = np.minimum(Q, P / rho).sum()
        low, high = (rho, high) if 1 - (1 - beta) ** n > rho * beta else (low, rho)
    return high


def _independently(
    decide: Decide, x: Text, Q: Table, P: Table, tau: Set[Path], e: Table, again: Rows, U: Rows, u: Row
) -> Text:
    """Verifies a tree of independent draws node by node from the root down. Equal draws are one node."""
    y: Text = ()
    j: Path = ()
    while True:
        d = len(j)
        n = sum(path[:-1] == j for path in tau - {()})
        tokens = independent(e[d], again[d], given(Q, x + y), n)
        accepted, emitted = decide(given(P, x + y), given(Q, x + y), tokens, U[d], u[d])
        if accepted is None:
            assert emitted is not None, "nothing accepted and nothing emitted"
            return (*y, emitted)
        y, j = (*y, accepted), (*j, [*dict.fromkeys(tokens)].index(accepted))


def independent(e: Table, again: Row, q: Table, n: int) -> list[int]:
    """n independent samples of q: a race whose tokens, once they have arrived, go on arriving (Section 3).

    The tokens of arrivals with rates q_i are independent samples of q. again: [n], Exp(1): the waits until
    the token that has just arrived does so again.
    """
    times, tokens = {i: e[i] / q[i] for i in range(len(q)) if q[i] > 0}, []
    for wait in again[:n]:
        tokens.append(min(times, key=times.__getitem__))
        times[tokens[-1]] += wait / q[tokens[-1]]
    return tokens
