"""Decides where the draft model stops. A further level of a tree is drafted only if it is worth its time.

A tree of "auto" fits the average round, but a draft model is sure of some tokens and guesses others. This
shows in the probability that it gives to a drafted token at temperature 1. `Stopping` learns from the
verified nodes of a run how often tokens of each class of probability are accepted. It compares the expected
number of accepted tokens in the next level with the price of that level. Beside a path that was copied from
the text (`copies`), the model's tokens count only where the path is wrong. If no number of levels is worth
its price, the model pauses. After each pause it drafts once, because only this shows how good its drafts are.

Whether a level is drafted depends on the levels above it and on verified nodes of earlier rounds. It does not
depend on the level's own draws or on later ones, so all rules stay lossless (docs/tree_choice.md), and ERSD's
text stays the same.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from specdec.topology import Topology

_EDGES = (0.1, 0.3, 0.5, 0.7, 0.85, 0.95, 0.99)
"""Probabilities at the borders between the classes of drafted tokens."""
_ASSUMED = tuple(0.3 + 0.67 * (low + high) / 2 for low, high in zip((0, *_EDGES), (*_EDGES, 1), strict=True))
"""For each class, the share of its tokens that is assumed to be accepted before any are observed."""
_PRIOR = 6.0
"""Each assumed share counts as much as this many observed tokens."""
_MEMORY = 32.0
"""When more tokens than this are counted in a class, its counts are halved, so that they follow the text."""
_SHORT_PAUSE, _LONG_PAUSE, _SURE = 6, 16, 0.8
"""In a pause, copied paths replace the draft model for `_SHORT_PAUSE` rounds. The model then drafts once to
test whether a further pause is right. This waits while the first copied token is right with a probability of
`_SURE` or more. Each further pause is twice as long as the one before, up to `_LONG_PAUSE`."""
_LATER = 0.3
"""The probability that a later sibling is accepted if no earlier sibling was. It is assumed, not learnt,
because later siblings matter little."""


class Price(NamedTuple):
    """The numbers of expected accepted tokens that are worth the time of a further level: `level` for the
    draft model's forward pass, and `node` for each node of the level. accepted: the share of first children
    that were accepted, in this run and in earlier runs of the pair."""

    level: float
    node: float
    accepted: float = 0.7


class Stopping:
    """Decides in one run, level by level, whether the draft model continues its tree.

    price: the price of a further level. If it is None, every tree is drafted to its end, and nothing is
    learnt. recorded: the depth at which the draft stopped in the recorded run that is now repeated. depth:
    the depth at which the latest tree was cut; 0 if only a copied path was drafted. `recorded` and `depth`
    are None for a tree that is not cut.
    """

    def __init__(self) -> None:
        self.price: Price | None = None
        self.recorded: int | None = None
        self.depth: int | None = None
        # for each class of tokens, how many were tried, and how many of them were right
        self._classes = [[_PRIOR, _PRIOR * share] for share in _ASSUMED]
        self._acceptance: dict[int, float] = {}
        self._firsts: dict[int, tuple[int, int]] = {}  # row -> its first child, and the class of its token
        self._copied: Sequence[float] = ()
        self._any = [0.0, 0.0]  # the same counts for the first children of all classes together
        self._rounds_paused, self._pause = 0, _SHORT_PAUSE

    def begin(self) -> None:
        """Prepares for the next round."""
        self._acceptance, self._firsts, self.depth = {0: 1.0}, {}, self.recorded
        self._copied = ()

    def starts(self, topology: Topology, copied: Sequence[float]) -> bool:
        """Whether the draft model drafts at all in this round, beside a path that was copied from the text.

        copied: for each token of the path, the probability that this token and all tokens before it are
        right, in which case the model's tokens of the same depth are useless; empty without a path.
        """
        self._copied = copied
        if not copied:
            self.depth = self.depth or None  # a recorded pause (0) ends in a round without a copied path
        elif self.depth is None and self.price and not self._pays(topology, self.price, 0, 1.0):
            if self._rounds_paused < self._pause or copied[0] >= _SURE:
                self.depth, self._rounds_paused = 0, self._rounds_paused + 1
            else:
                self._pause, self._copied = min(2 * self._pause, _LONG_PAUSE), ()
        else:
            self._pause = _SHORT_PAUSE
        if self.depth != 0:
            self._rounds_paused = 0
        return self.depth != 0

    def _pays(self, topology: Topology, price: Price, depth: int, reach: float) -> bool:
        """Whether the next levels below this depth, any number of them, are together worth their price. Their
        tokens count only where the copied path is wrong.

        reach: the expected number of accepted nodes of this depth.
        """
        trials, right = self._any
        share, gain = (right + _PRIOR * price.accepted) / (trials + _PRIOR), 0.0
        for above, rows in enumerate(topology.levels[depth + 1 :], start=depth):
            missed = 1 - self._copied[above] if above < len(self._copied) else 1.0
            reach *= share
            gain += reach * missed - price.level - price.node * len(rows)
            if gain > 0:
                return True
        return False

    def drawn(self, topology: Topology, first: Mapping[int, float]) -> None:
        """Estimates the acceptance of the children of some rows. first: for each row, the probability at
        temperature 1 that the draft model gives to the row's first child."""
        for row, probability in first.items():
            children, number = topology.children[row], bisect(_EDGES, probability)
            self._firsts[row] = children[0], number
            trials, right = self._classes[number]
            chance, reach = right / trials, self._acceptance[row]
            for child in children:
                self._acceptance[child] = reach * chance
                reach, chance = reach * (1 - chance), _LATER

    def worth(self, topology: Topology, rows: Sequence[int]) -> bool:
        """Whether the children of these rows, all of one depth, are worth their price. Beside a copied path,
        deeper levels count too, because the path may become wrong only there."""
        assert self.price is not None, "levels without a price are drafted always"
        reach = sum(self._acceptance[row] for row in rows)
        if self._copied:
            return self._pays(topology, self.price, topology.depths[rows[0]], reach)
        trials, right = map(sum, zip(*self._classes, strict=True))
        price = self.price.level + self.price.node * sum(len(topology.children[row]) for row in rows)
        return right / trials * reach > price

    def rename(self, rows: Mapping[int, int]) -> None:
        """Renumbers the rows of the tree. rows: {old number: new number}; rows not in it are forgotten."""
        self._firsts = {
            rows[row]: (rows[child], number) for row, (child, number) in self._firsts.items() if row in rows
        }

    def learn(self, accepted: Sequence[int]) -> None:
        """Count the verified first children of the round. accepted: row numbers of the accepted nodes."""
        for row in (0, *accepted):
            if row in self._firsts:
                child, number = self._firsts[row]
                _count(self._classes[number], child in accepted)
                _count(self._any, child in accepted)


def _count(counts: list[float], is_right: bool) -> None:
    """Count one more token. counts: how many tokens were tried, and how many of them were right."""
    counts[:] = counts[0] + 1, counts[1] + is_right
    if counts[0] > _MEMORY:
        counts[:] = counts[0] / 2, counts[1] / 2
