"""The paper's Algorithms 1 to 5, corrected, as functions of small tables: read this first.

These functions are slow, and the decoder does not use them. The tests compare `methods`, `drafters`,
`decoding` and `optimal` with them, decision by decision, with the same randomness.
`tests/helpers/other_rules.py` states the rules of other papers in the same way.

    Ω           tokens 0, ..., |Ω| - 1
    x           the text so far, a tuple of tokens (the paper's x_{:n})
    P, Q        target and draft, Markov sources of some order m (Section 4): tables [|Ω|, ..., |Ω|] of
                m + 1 dimensions, of which the last is the next token
    tau         the topology: a set of paths j, tuples of 0-based child indices; () is the root
    x_draft     the drafted token x̃_j of each path j
    e           [depth + 1, |Ω|]: exponentials ~ Exp(1), e[d] being the race of position n + 1 + d
    U           [depth, children]: U[d][i] tests the child i of the node at depth d; Uniform(0, 1)
    u           [depth + 1]: u[d] samples the token that follows the node at depth d; Uniform(0, 1)

Randomness is an argument. All nodes of one depth share a race. This changes no distribution: at most one of
these nodes is verified, and earlier races and tests determine which one. With shared races, ERSD writes the
text of autoregressive decoding for every draft. GSD needs U and u, because it must not decide with the
drafting race.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from heapq import heappop, heappush

import numpy as np

Text = tuple[int, ...]
Path = tuple[int, ...]


def simple_gsd(x: Text, Q: np.ndarray, P: np.ndarray, e: np.ndarray, U: float, u: Sequence[float]) -> Text:
    """Algorithm 1, simple GSD (k = 1): the one or two next tokens.

    e: [1, |Ω|]. Its first arrival under Q is the drafted token. U tests this token. u: [2].
    """
    p, q = given(P, x), given(Q, x)  # [|Ω|] each
    x_draft = arrivals(e[0], q)[0]
    if p[x_draft] / q[x_draft] > U:
        return (x_draft, sample(given(P, (*x, x_draft)), u[1]))
    return (sample(residual(p, q), u[0]),)


def simple_ersd(x: Text, Q: np.ndarray, P: np.ndarray, e: np.ndarray) -> Text:
    """Algorithm 2, simple ERSD (k = 1): the one or two next tokens. e: [2, |Ω|]."""
    x_draft = arrivals(e[0], given(Q, x))[0]
    x_next_1 = arrivals(e[0], given(P, x))[0]
    if x_draft == x_next_1:
        x_next_2 = arrivals(e[1], given(P, (*x, x_draft)))[0]
        return (x_draft, x_next_2)
    return (x_next_1,)


def optimal_tree(k: int, R: Callable[[Path], float], vocab_size: int) -> set[Path]:
    """Algorithm 3, the optimal tree τ*: k + 1 paths, the root () included.

    R(j): the probability that node j is accepted. It must not exceed R of j's parent, nor R of an earlier
    sibling of j.
    """
    tree: set[Path] = {()}
    C: list[tuple[float, Path]] = [(-R((0,)), (0,))]  # a heap has its smallest item first
    for _ in range(k):
        _, j = heappop(C)
        tree.add(j)
        j_child = (*j, 0)
        heappush(C, (-R(j_child), j_child))
        if j[-1] + 1 < vocab_size:
            j_sibling = (*j[:-1], j[-1] + 1)
            heappush(C, (-R(j_sibling), j_sibling))
    return tree


def gsd(
    x: Text,
    Q: np.ndarray,
    P: np.ndarray,
    tau: Set[Path],
    e: np.ndarray,
    U: Sequence[Sequence[float]],
    u: Sequence[float],
) -> Text:
    """Algorithm 4, greedy speculative decoding: the accepted tokens, and one more.

    Corrections to the paper: the test reads the child's token, not its parent's; after an acceptance, j
    becomes the child; Q is not read at a leaf.
    """
    x_draft = draft(x, Q, tau, e)
    y: Text = ()
    j: Path = ()
    while True:
        P_target, Q_draft = given(P, x + y), given(Q, x + y)  # [|Ω|] each
        i = 0  # the child that is tested
        while (*j, i) in x_draft:
            token = x_draft[*j, i]
            if P_target[token] / Q_draft[token] > U[len(j)][i]:
                break
            P_target, Q_draft = residual(P_target, Q_draft), without(Q_draft, token)
            i += 1
        else:
            return (*y, sample(P_target, u[len(j)]))
        y, j = (*y, token), (*j, i)


def ersd(x: Text, Q: np.ndarray, P: np.ndarray, tau: Set[Path], e: np.ndarray) -> Text:
    """Algorithm 5, exponential-race speculative decoding: the accepted tokens, and one more.

    Corrections to the paper: the winner comes from the race under P, not from the race under Q; after an
    acceptance, j becomes the child; leaves have a race too.
    """
    x_draft = draft(x, Q, tau, e)
    y: Text = ()
    j: Path = ()
    while True:
        x_next = arrivals(e[len(j)], given(P, x + y))[0]
        y = (*y, x_next)
        children = {token: path for path, token in x_draft.items() if path[:-1] == j}
        if x_next not in children:
            return y
        j = children[x_next]


def draft(
    x: Text, Q: np.ndarray, tau: Set[Path], e: np.ndarray | Mapping[Path, np.ndarray]
) -> dict[Path, int]:
    """Lines 2 to 13 of Algorithm 4 and 2 to 11 of Algorithm 5: x̃_j for each j in τ except the root.

    e: the races, by the depth or by the path of the node whose children they draft.

    Child i of a node is arrival number i of the node's race under Q: a sample of Q without the earlier
    siblings. Correction to the paper: only tokens with Q > 0 arrive. If no arrival is left for a path, this
    path and the paths below it have no token.
    """
    x_draft: dict[Path, int] = {}
    # in lexicographic order each path comes after its parent and its earlier siblings
    for j in sorted(set(tau) - {()}):
        *anc, i = j
        if anc and tuple(anc) not in x_draft:
            continue
        line = tuple(x_draft[j[:length]] for length in range(1, len(j)))  # the tokens of the ancestors of j
        race = e[tuple(anc)] if isinstance(e, Mapping) else e[len(anc)]
        order = arrivals(race, given(Q, x + line))
        if i < len(order):
            x_draft[j] = order[i]
    return x_draft


def given(P: np.ndarray, x: Text) -> np.ndarray:
    """P(· | x), [|Ω|]: the row of the table for the last m tokens of x (Section 4)."""
    m = P.ndim - 1
    return P[x[len(x) - m :]]


def arrivals(e: np.ndarray, p: np.ndarray) -> list[int]:
    """The tokens with p_i > 0, in the order of their arrival times e_i / p_i (Section 3)."""
    support = [i for i in range(len(p)) if p[i] > 0]
    return sorted(support, key=lambda i: e[i] / p[i])


def residual(P: np.ndarray, Q: np.ndarray) -> np.ndarray:
    """The residual distribution max(P - Q, 0), normalised, [|Ω|] (Section 2).

    Correction to the paper: if max(P - Q, 0) is zero everywhere (P = Q up to rounding), the result is P.
    """
    P_residual = np.maximum(P - Q, 0)
    return P_residual / P_residual.sum() if P_residual.sum() > 0 else P


def without(Q: np.ndarray, token: int) -> np.ndarray:
    """Q conditioned on not drawing this token, [|Ω|] (Algorithm 4); all zero if Q has no other token."""
    Q = Q.copy()  # a copy, because the draft's own table must not change
    Q[token] = 0
    return Q / Q.sum() if Q.sum() > 0 else Q


def sample(P: np.ndarray, u: float) -> int:
    """A sample of P (Section 1), by inversion: the first token whose running sum of P is above u."""
    end = 0
    for token, probability in enumerate(P):
        end += probability
        if u < end:
            return token
    return max(token for token, probability in enumerate(P) if probability > 0)  # rounding left u without one
