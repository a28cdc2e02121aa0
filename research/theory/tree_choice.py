"""The distribution of GSD's text if a drawn token itself decides whether it is verified.

To offer a token is to add it to the tree for verification. GSD, traversal verification and SpecInfer keep the
target's distribution if each offer is decided before the token is drawn. ERSD's text does not depend on the
tree at all. This is not in the paper; docs/tree_choice.md has the theorem.
"""

from collections.abc import Sequence
from fractions import Fraction

Number = float | Fraction


def offered_distribution(p: Sequence[Number], q: Sequence[Number], offered: Sequence[Number]) -> list[Number]:
    """GSD's distribution [n] of the next token, if a draw i of q is offered with probability offered[i].

    A draw that is not offered is dropped, and the next token is a sample of p. If all entries of `offered`
    are equal, the offer does not depend on the draw, and the result is p. For p = q and offers of probability
    0 or 1, the total variation from p is d (1 - d), at most 1/4, where d is the probability that a draw is
    dropped. With rational arguments, the results are rational.
    """
    excess = [max(a - b, 0) for a, b in zip(p, q, strict=True)]
    waste = sum(b * (1 - o) for b, o in zip(q, offered, strict=True))
    rejected = sum(o * max(b - a, 0) for a, b, o in zip(p, q, offered, strict=True))
    share = rejected / sum(excess) if any(excess) else 0
    return [
        o * min(a, b) + share * more + waste * a for a, b, o, more in zip(p, q, offered, excess, strict=True)
    ]
