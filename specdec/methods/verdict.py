"""The input and the result of verification, and the loop that most methods share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from torch import Tensor

from specdec.race import PositionNoise
from specdec.topology import Topology

Kind = Literal["accepted", "bonus", "residual", "correction", "sampled"]
"""The kind of an emitted token, which says how it was chosen; see `trace.Token`."""


class Drafted(NamedTuple):
    """A drafted tree, as verification gets it. It leaves out nodes for which the draft had no token.

    token_ids: [1 + k], the root's first.
    log_q: by row, log q [vocabulary] from which the row's children were drafted; None at leaves, and if the
    children were drafted without probabilities.
    draws: by row, the children in the order of their independent draws, where equal draws are the same child;
    empty if the children were drafted without replacement.
    copied: the rows of the path that was copied from the text (`drafters.copies`), in order. The first copied
    row is the last child of its parent.
    """

    topology: Topology
    token_ids: Sequence[int]
    log_q: Sequence[Tensor | None]
    draws: Sequence[Sequence[int]] = ()
    copied: Sequence[int] = ()

    def candidates(self, row: int) -> Sequence[int]:
        """The children of this row in the order in which they are tested.

        A child that was drawn twice is listed twice. A copied child is left out: rules do not test it.
        """
        children = self.draws[row] if self.draws else self.topology.children[row]
        return children[:-1] if children and children[-1] in self.copied else children

    def child(self, row: int, token_id: int) -> int | None:
        """The child of this row that has this token; None if there is none."""
        return next((i for i in self.topology.children[row] if self.token_ids[i] == token_id), None)


class Attempt(NamedTuple):
    """One acceptance test: the row's token is accepted if `u < ratio`.

    p, q: the probabilities of the token at the moment of the test. ratio: None stands for p / q, the ratio of
    Algorithm 4 of the paper.
    """

    row: int
    u: float
    p: float
    q: float
    accepted: bool
    ratio: float | None = None


class Verdict(NamedTuple):
    """The result of verification: the tokens y that Algorithms 4 and 5 of the paper return, and the tests.

    rows: the accepted rows, from the root's child downwards. token_id: the last token of the round; None if
    the text ended with an accepted token. kind: the kind of the last token, as in `trace.Token`. attempts:
    the acceptance tests, in order; ERSD has none.
    """

    rows: tuple[int, ...]
    token_id: int | None
    kind: Kind
    attempts: tuple[Attempt, ...] = ()


Verifier = Callable[[Drafted, Sequence[Tensor], PositionNoise], Verdict]
"""A method's function: it decides a round from the drafted tree, log p [vocabulary] for each row, and the
round's random numbers."""


class Decision(NamedTuple):
    """The decision at a node: a child is accepted, or a token is emitted. child: the accepted child's row, or
    None if `token_id` is emitted."""

    child: int | None
    token_id: int | None
    attempts: Sequence[Attempt] = ()


def descend(topology: Topology, decide: Callable[[int], Decision], kind: Kind) -> Verdict:
    """The loop of Algorithms 4 and 5 of the paper: it starts at the root and moves to the accepted child
    until no child is accepted.

    decide: makes the decision at a row. kind: the kind of the last token if drafted children were rejected.
    """
    row = 0
    rows: list[int] = []
    attempts: list[Attempt] = []
    while True:
        child, token_id, tested = decide(row)
        attempts += tested
        if child is None:
            kind = kind if topology.children[row] else "bonus"
            return Verdict(tuple(rows), token_id, kind, tuple(attempts))
        rows.append(row := child)
