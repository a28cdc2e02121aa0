"""Prompt lookup: what followed the last time that the text's end was there."""

from __future__ import annotations

from collections.abc import Sequence

from specdec.checks import whole
from specdec.drafters.automaton import SuffixAutomaton
from specdec.topology import Topology


class NGram:
    """Drafts what followed the longest suffix of the text that was there before, at its last place.

    One sequence of tokens without chances. shortest: tokens that such a suffix must have at least.
    """

    def __init__(self, shortest: int = 1):
        self.shortest = whole("shortest", shortest, 1)
        self.name = f"n-grams from {self.shortest}"
        self._seen = SuffixAutomaton()

    def new_run(self) -> NGram:
        """One with an index of its own."""
        return NGram(self.shortest)

    def propose(self, text_ids: Sequence[int], topology: Topology) -> list[list[int]]:
        """At most one continuation, as long as the topology is deep; it may go on into itself."""
        self._seen.follow(text_ids)
        match = self._seen.whole.shorter
        if match is None or match.length < self.shortest:
            return []
        found = list(text_ids)
        for place in range(match.before + 1, match.before + 1 + topology.depth):
            found.append(found[place])
        return [found[len(text_ids) :]]
