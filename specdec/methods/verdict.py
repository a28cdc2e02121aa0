"""What verification decides, and the way down the tree that all methods share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, Protocol

from torch import Tensor

from specdec.race import Noise
from specdec.topology import Topology

Kind = Literal["accepted", "bonus", "residual", "correction", "sampled"]
"""Where an emitted token comes from; see `trace.Token`."""


class Drafted(NamedTuple):
    """A drafted tree: the topology as far as q's support reached, its tokens and the q's drafted from.

    token_ids: [1 + k], the root's first. log_q: by row, [vocabulary]; None at leaves.
    """

    topology: Topology
    token_ids: list[int]
    log_q: Sequence[Tensor | None]


class OwnNoise(Protocol):
    """A round's uniform numbers that the race does not use."""

    def test(self, depth: int, child_index: int) -> float:
        """What the child with this index of a node at this depth is tested with."""
        ...

    def last(self, depth: int) -> float:
        """What the token after a node at this depth is sampled with, where no child gives it."""
        ...


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


Verifier = Callable[[Drafted, Sequence[Tensor], Noise, OwnNoise], Verdict]
"""Decides a round, given what was drafted, log p by row, [vocabulary] each, and its noise: the races of the
tree's depths, and uniforms beside them."""


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
