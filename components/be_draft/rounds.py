"""A round whose draft people wrote: one visitor's words, or the answers of a class as a tree.

    round = played(pair, text_ids, [[296, 606], [296, 1444]], seed=7)

Under ERSD the next token is decided by seed and position, whatever is drafted. So a round needs nothing but
the text before it: the same text and seed get the same answer, and no run has to be kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import Any, NamedTuple

import specdec
from specdec import ModelPair, Round, Topology
from specdec.topology import Path


class Written:
    """Continuations that people wrote, as a drafter: a tree in which equal beginnings are one.

    continuations: token ids each, the first ones first; repeated and empty ones add nothing. topology: that
    they fit into.
    """

    name = "people"

    def __init__(self, continuations: Iterable[Sequence[int]]):
        children: dict[Path, list[int]] = {(): []}
        for continuation in continuations:
            path: Path = ()
            for token_id in continuation:
                there = children[path]
                if token_id not in there:
                    there.append(token_id)
                path = (*path, there.index(token_id))
                children.setdefault(path, [])
        self.topology = Topology([path for path in children if path])
        ends = sorted(path for path, there in children.items() if path and not there)
        self._lines = [[children[path[:i]][index] for i, index in enumerate(path)] for path in ends]

    def propose(self, text_ids: Sequence[int], topology: Topology) -> list[list[int]]:  # noqa: ARG002
        """All of them, those that go on from a first child before the others."""
        return self._lines


def played(
    pair: ModelPair,
    text_ids: Sequence[int],
    continuations: Iterable[Sequence[int]],
    seed: int,
    **options: Any,
) -> Round:
    """One round of ERSD (Algorithm 5) after this text, with these continuations as its draft.

    text_ids: of prompt and text so far. Without continuations the target writes one token alone. options:
    temperature, top_k, top_p and detail, as in `specdec.stream`, whose ValueError says what does not fit.
    """
    people = Written(continuations)
    if not people.topology.num_draft_tokens:
        return _first(pair, text_ids, 0, method="ar", seed=seed, **options)
    tree = people.topology
    return _first(pair, text_ids, tree.depth, drafter=people, topology=tree, seed=seed, **options)


class Kept(NamedTuple):
    """What a drafter drafted in one round. accepted: of these tokens; seconds: that drafting took."""

    drafted: int
    accepted: int
    seconds: float


def in_their_place(
    pair: ModelPair,
    text_ids: Sequence[int],
    tree: Topology,
    seed: int,
    drafter: Any = None,
    **sampling: Any,
) -> Kept:
    """The same round with a tree of this shape, `Written.topology`, by the pair's draft or by a drafter.

    ValueError as in `specdec.stream`.
    """
    if not tree.num_draft_tokens:
        return Kept(0, 0, 0.0)
    options = {"drafter": drafter, "topology": tree, "detail": False, **sampling}
    round = _first(pair, text_ids, tree.depth, seed=seed, **options)
    return Kept(len(round.nodes), round.num_accepted, round.seconds.draft)


def _first(pair: ModelPair, text_ids: Sequence[int], depth: int, **options: Any) -> Round:
    """The first round of a run that has room for more, so that no text ends with it but at its own end."""
    with closing(specdec.stream(pair, text_ids, max_new_tokens=depth + 2, **options)) as run:
        return next(run)
