"""What verification decides, and the way down the tree that all methods share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from specdec.topology import Topology
from specdec.trace import Kind


class Attempt(NamedTuple):
    """One acceptance test of Algorithm 4: row's token accepted when `u < p / q`, p and q at that moment."""

    row: int
    u: float
    p: float
    q: float
    accepted: bool


class Verdict(NamedTuple):
    """What verification decided: the y that Algorithms 4 and 5 return, and how they came to it.

    rows: the accepted rows, from the root's child downwards. token_id: the last token of the round; None
    where the text ended with an accepted token. kind: `bonus` (accepted to a leaf), else `residual` (GSD)
    or `correction` (ERSD). attempts: the acceptance tests of GSD, in order.
    """

    rows: tuple[int, ...]
    token_id: int | None
    kind: Kind
    attempts: tuple[Attempt, ...] = ()


class Decision(NamedTuple):
    """What is decided at a node: the row of the child that is accepted, or None and the token to emit."""

    child: int | None
    token_id: int | None
    attempts: Sequence[Attempt] = ()


def walk(topology: Topology, decide: Callable[[int], Decision], kind: Kind) -> Verdict:
    """The way down the tree that Algorithms 4 and 5 share: to the accepted child until there is none.

    decide: by row. kind: of a token that is emitted where there were children.
    """
    row, rows, attempts = 0, [], []
    while True:
        child, token_id, tried = decide(row)
        attempts += tried
        if child is None:
            kind = kind if topology.children[row] else "bonus"
            return Verdict(tuple(rows), token_id, kind, tuple(attempts))
        rows.append(row := child)
