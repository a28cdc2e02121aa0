"""Drafts a path copied from the text, in addition to the draft model's tree. The target must score copied
tokens, but the draft model needs no forward pass for them.

The path repeats the tokens that followed the last earlier occurrence of the text's longest repeated suffix.
Where the path and the model's tree have the same tokens, they share nodes; the rest of the path hangs below
the last shared node. The path ends where acceptance of its tokens becomes too unlikely, estimated from
earlier copies in this text. If the expected number of accepted tokens of the path is at least the depth of
the model's tree, the model does not draft in that round. With "auto" it does not draft either if its tokens,
which help only where the path is wrong, are not worth their time (`stopping`).

Under ERSD the text is that of plain decoding, whatever is drafted. The other rules verify the model's tree as
if there were no path, so that the token after the last accepted node has the target's distribution. If this
token is on the path, the target has already computed the distribution of the token after it, and that token
is sampled (`methods.copied`). The path, and whether the model drafts, depend only on the text before the
round, on measured times, and on drafts at positions that are already decided. They do not depend on noise
that is used later, so all rules stay lossless with a path (docs/tree_choice.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from torch import Tensor

from specdec.drafters.automaton import SuffixAutomaton
from specdec.drafters.base import Drafter, only_root
from specdec.drafters.stopping import Stopping
from specdec.methods import Drafted
from specdec.models import Session
from specdec.models.requests import Requesting
from specdec.race import PositionNoise
from specdec.topology import Topology

LONGEST = 16
"""The most tokens of a path."""
_LEAST = 0.3
"""The path ends before the estimated probability that all of its tokens are right falls below this value."""
_PRIOR = (0.25, 0.5, 0.7, 0.85, 0.9, 0.3)
"""The assumed share of right copies after a repeated suffix of at least 1, 2, 4, 8 and 16 tokens. The last
value is for a place where the other drafter drafted only other tokens."""
_APART = len(_PRIOR) - 1
_PRIOR_COPIES = 4
"""Each assumed share counts as much as this many observed copies."""


class Copies:
    """Copies paths from one growing text. Counts how often copied tokens were right, by the length of the
    repeated suffix."""

    def __init__(self) -> None:
        self._index = SuffixAutomaton()
        self._trials = [_PRIOR_COPIES] * len(_PRIOR)
        self._right = [_PRIOR_COPIES * share for share in _PRIOR]

    def follow(self, text_ids: Sequence[int]) -> None:
        """Reads the text's new tokens. Except in the first call, they show whether copies were right."""
        if not self._index.text:
            self._index.follow(text_ids)
        for token_id in text_ids[len(self._index.text) :]:
            length, copy = self._longest()
            if length:
                self._count(_kind(length), next(copy) == token_id)
            self._index.extend(token_id)

    def settle(self, start: int, disputed: Sequence[int]) -> None:
        """Count whether the path was right at the first place where the other drafter's tree did not have the
        path's token. Nothing is counted if the text differs from the path before this place.

        disputed: the path's tokens up to and including this place. start: the position of the first token.
        """
        since = self._index.text[start : start + len(disputed)]
        if len(since) == len(disputed) and since[:-1] == disputed[:-1]:
            self._count(_APART, since[-1] == disputed[-1])

    def path(self, most: int, apart: int | None = None) -> tuple[list[int], list[float]]:
        """The tokens of the path, at most `most`, and for each token the probability that it and all tokens
        before it on the path are right.

        apart: the index of the first token that the other drafter's tree does not have, although the tree has
        other tokens at this place; None if there is no such token.
        """
        tokens, chances = list[int](), list[float]()
        length, copy = self._longest()
        chance = float(length > 0)
        while chance and len(tokens) < most:
            chance *= self._share(_APART) if len(tokens) == apart else self.share(length + len(tokens))
            if chance < _LEAST:
                break
            tokens.append(next(copy))
            chances.append(chance)
        return tokens, chances

    def share(self, length: int) -> float:
        """The estimated probability that the target accepts a token copied after a repeated suffix of
        `length` tokens. `length` is at least 1."""
        return self._share(_kind(length))

    def _share(self, kind: int) -> float:
        return self._right[kind] / self._trials[kind]

    def _count(self, kind: int, right: bool) -> None:
        self._trials[kind] += 1
        self._right[kind] += right

    def _longest(self) -> tuple[int, Iterator[int]]:
        """The length of the text's longest repeated suffix, and the tokens that followed it, without end."""
        match = self._index.whole_text.shorter
        return (match.length, self._index.after(match)) if match else (0, iter(()))


def _kind(length: int) -> int:
    return min(length.bit_length(), _APART) - 1


class CopyingDrafter:
    """A `Drafter` that adds copied paths to the trees of another drafter.

    beside: the other drafter. Paths are copied even if the text is too long for it.
    """

    def __init__(self, beside: Drafter, stopping: Stopping):
        self.beside, self._stopping = beside, stopping
        self._copies = Copies()
        self._rows: list[int | None] = [0]  # for each row, the row of the other drafter's tree
        self._disputed: list[int] = []  # the last path, up to the first token that the other tree lacks
        self._start = 0  # the position at which the last path starts

    def prompt_session(self, length: int) -> Session | None:
        """The other drafter's session."""
        return self.beside.prompt_session(length)

    def draft(
        self, text_ids: Sequence[int], topology: Any, depth: int, noise: PositionNoise
    ) -> Requesting[Drafted]:
        """Drafts a path, and the other drafter's tree unless enough tokens of the path are likely right."""
        self._copies.follow(text_ids)
        if self._disputed:
            self._copies.settle(self._start, self._disputed)
        self._start, self._disputed = len(text_ids), []
        path, chances = self._copies.path(min(depth, LONGEST))
        beside = only_root(text_ids)
        if sum(chances) < min(depth, topology.depth) and self._stopping.starts(topology, chances):
            beside = yield from self.beside.draft(text_ids, topology, depth, noise)
            row, shared = shared_with(beside, path)
            if shared < len(path) and beside.topology.children[row]:
                self._disputed = path[: shared + 1]
                path, _ = self._copies.path(len(path), shared)
        drafted, self._rows = joined(beside, path)
        return drafted

    def commit(self, rows: Sequence[int]) -> None:
        """Commits the accepted nodes in the other drafter, except copied ones, which it does not have."""
        self.beside.commit([own for row in rows if (own := self._rows[row]) is not None])


def joined(drafted: Drafted, path: Sequence[int]) -> tuple[Drafted, list[int | None]]:
    """The drafted tree with a copied path added at its root. Also, for each row (node) of the new tree, its
    row in the old tree; None for a node that the path added.

    An added node is the last child of its parent.
    """
    row, shared = shared_with(drafted, path)
    num_drafted = len(drafted.token_ids)
    token_ids = [*drafted.token_ids, *path[shared:]]
    children = [[*each] for each in drafted.topology.children] + [[] for _ in path[shared:]]
    for copy in range(num_drafted, len(token_ids)):
        children[row].append(copy)
        row = copy
    order, parents, child_indices = [0], [-1], [-1]
    for number, old in enumerate(order):  # the list grows while it is read: breadth first
        order += children[old]
        parents += [number] * len(children[old])
        child_indices += range(len(children[old]))
    new = {old: number for number, old in enumerate(order)}
    rows = [old if old < num_drafted else None for old in order]
    joint = Drafted(
        Topology.from_parents(parents, child_indices),
        [token_ids[old] for old in order],
        _Rows(drafted.log_q, rows),
        [() if old is None else [new[child] for child in drafted.draws[old]] for old in rows]
        if drafted.draws
        else (),
        tuple(new[copy] for copy in range(num_drafted, len(token_ids))),
    )
    return joint, rows


def shared_with(drafted: Drafted, path: Sequence[int]) -> tuple[int, int]:
    """Follows a path of tokens from the root as far as the drafted tree has its tokens. Returns the row of
    the last node on the path that the tree has, and the number of tokens up to this node."""
    row, shared = 0, 0
    while shared < len(path) and (child := drafted.child(row, path[shared])) is not None:
        row, shared = child, shared + 1
    return row, shared


class _Rows(Sequence[Any]):
    """log q of each node of the joined tree, None for copied nodes. An entry is computed when it is read."""

    def __init__(self, log_q: Sequence[Tensor | None], rows: Sequence[int | None]):
        self._log_q, self._rows = log_q, rows

    def __getitem__(self, row: Any) -> Any:
        old = self._rows[row]
        return None if old is None else self._log_q[old]

    def __len__(self) -> int:
        return len(self._rows)
