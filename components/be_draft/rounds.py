"""A round whose draft was written by people: the words of one visitor, or the answers of a class as a tree.

    round = played(pair, text_ids, [[296, 606], [296, 1444]], seed=7)

Under ERSD the seed and the position decide the next token, whatever was drafted. A round therefore needs only
the text before it: the same text and seed give the same answer, and no run has to be stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import Any, NamedTuple

import specdec
from specdec import ModelPair, Round, Topology
from specdec.topology import Path


class Written:
    """A drafter that proposes texts written by people.

    Texts with the same beginning share the nodes of that beginning in the draft tree. continuations: the
    token ids of each text, in order of priority; repeated and empty texts add nothing. topology: the draft
    tree with exactly these texts.
    """

    name = "people"

    def __init__(self, continuations: Iterable[Sequence[int]]):
        children: dict[Path, list[int]] = {(): []}
        for continuation in continuations:
            path: Path = ()
            for token_id in continuation:
                tokens = children[path]
                if token_id not in tokens:
                    tokens.append(token_id)
                path = (*path, tokens.index(token_id))
                children.setdefault(path, [])
        self.topology = Topology([path for path in children if path])
        ends = sorted(path for path, tokens in children.items() if path and not tokens)
        self._lines = [[children[path[:i]][index] for i, index in enumerate(path)] for path in ends]

    def propose(self, text_ids: Sequence[int], topology: Topology) -> list[list[int]]:  # noqa: ARG002
        """Propose all continuations, which the constructor has merged into one tree."""
        return self._lines


def played(
    pair: ModelPair,
    text_ids: Sequence[int],
    continuations: Iterable[Sequence[int]],
    seed: int,
    **options: Any,
) -> Round:
    """Run one round of ERSD (Algorithm 5 of the paper) after this text, with these continuations as the
    draft.

    text_ids: the tokens of the prompt and of the text so far. Without continuations the target writes one
    token alone. options: temperature, top_k, top_p and detail, as in `specdec.stream`, which raises
    ValueError for a value that does not fit.
    """
    people = Written(continuations)
    if not people.topology.num_draft_tokens:
        return _first_round(pair, text_ids, 0, method="ar", seed=seed, **options)
    tree = people.topology
    return _first_round(pair, text_ids, tree.depth, drafter=people, topology=tree, seed=seed, **options)


class DrafterRound(NamedTuple):
    """The result of a drafter in one round: the numbers of drafted and of accepted tokens, and the seconds of
    drafting."""

    drafted: int
    accepted: int
    seconds: float


def drafter_round(
    pair: ModelPair,
    text_ids: Sequence[int],
    tree: Topology,
    seed: int,
    drafter: Any = None,
    **sampling: Any,
) -> DrafterRound:
    """Run a round after the same text as `played`, but with another drafter in the place of people.

    drafter: by default the pair's draft model. tree: the shape to draft, that of the people's tree
    (`Written.topology`). ValueError as in `specdec.stream`.
    """
    if not tree.num_draft_tokens:
        return DrafterRound(0, 0, 0.0)
    options = {"drafter": drafter, "topology": tree, "detail": False, **sampling}
    round = _first_round(pair, text_ids, tree.depth, seed=seed, **options)
    return DrafterRound(len(round.nodes), round.num_accepted, round.seconds.draft)


def _first_round(pair: ModelPair, text_ids: Sequence[int], depth: int, **options: Any) -> Round:
    """The first round of a run with a tree of this depth. The run has room for one token more than the round
    can yield, so that only an end of the text can end the round early."""
    with closing(specdec.stream(pair, text_ids, max_new_tokens=depth + 2, **options)) as run:
        return next(run)
