"""What verification decides, and the way down the tree that methods share which decide node by node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, Protocol

import torch
from torch import Tensor

from specdec.race import Noise
from specdec.topology import Path, Topology

Kind = Literal["accepted", "bonus", "residual", "correction", "sampled"]
"""Where an emitted token comes from; see `trace.Token`."""


class Drafted(NamedTuple):
    """A drafted tree: the topology as far as q's support reached, its tokens and the q's drafted from.

    token_ids: [1 + k], the root's first. log_q: by row, [vocabulary]; None at leaves, and where the children
    were drafted without chance. draws: by row, its children as they were drawn, where that was independently:
    equal draws are one child.
    """

    topology: Topology
    token_ids: list[int]
    log_q: Sequence[Tensor | None]
    draws: Sequence[Sequence[int]] = ()


class OwnNoise(Protocol):
    """A round's uniform numbers that the race does not use, keyed by (seed, position)."""

    @property
    def seed(self) -> int:
        """Of the run."""
        ...

    @property
    def position(self) -> int:
        """Of the round's first token."""
        ...

    def test(self, depth: int, child_index: int) -> float:
        """What the child with this index of a node at this depth is tested with."""
        ...

    def last(self, depth: int) -> float:
        """What the token after a node at this depth is sampled with, where no child gives it."""
        ...

    def node_test(self, path: Path) -> float:
        """What this node is tested with in this round alone."""
        ...

    def node_last(self, path: Path) -> float:
        """What the token after this node is sampled with in this round alone."""
        ...


class Attempt(NamedTuple):
    """One acceptance test: row's token accepted when `u < ratio`, under Algorithm 4 `p / q`.

    p, q: of the token at that moment. ratio: None where it is p / q.
    """

    row: int
    u: float
    p: float
    q: float
    accepted: bool
    ratio: float | None = None


class Verdict(NamedTuple):
    """What verification decided: the y that Algorithms 4 and 5 return, and how they came to it.

    rows: the accepted rows, from the root's child downwards. token_id: the last token of the round; None
    where the text ended with an accepted token. kind: `bonus` (accepted to a leaf), else `correction` (ERSD)
    or `residual` (all others). attempts: the acceptance tests, in order; ERSD has none.
    """

    rows: tuple[int, ...]
    token_id: int | None
    kind: Kind
    attempts: tuple[Attempt, ...] = ()


def drawn_from(log_q: Sequence[Tensor | None], row: int, device: torch.device) -> Tensor:
    """log q [vocabulary] that this row's children were drafted from (Algorithm 4); it may lie elsewhere."""
    found = log_q[row]
    assert found is not None, f"row {row} has children drafted from nothing"
    return found.to(device)


Verifier = Callable[[Drafted, Sequence[Tensor], Noise, OwnNoise], Verdict]
"""Decides a round, given what was drafted, log p by row, [vocabulary] each, and its noise: the races of the
tree's depths, none where each node has its own, and uniforms beside them."""


class Decision(NamedTuple):
    """What is decided at a node: the row of the child that is accepted, or None and the token to emit."""

    child: int | None
    token_id: int | None
    attempts: Sequence[Attempt] = ()


def walk(topology: Topology, decide: Callable[[int], Decision], kind: Kind) -> Verdict:
    """The way down the tree that Algorithms 4 and 5 share: to the accepted child until there is none.

    decide: by row. kind: of a token that is emitted where there were children.
    """
    row = 0
    rows: list[int] = []
    attempts: list[Attempt] = []
    while True:
        child, token_id, tried = decide(row)
        attempts += tried
        if child is None:
            kind = kind if topology.children[row] else "bonus"
            return Verdict(tuple(rows), token_id, kind, tuple(attempts))
        rows.append(row := child)
