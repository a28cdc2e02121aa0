"""Prompt lookup: drafts the tokens that followed the last earlier occurrence of the text's end."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from specdec.checks import whole
from specdec.drafters.automaton import SuffixAutomaton
from specdec.topology import Topology


class NGram:
    """Drafts the tokens that followed the last earlier occurrence of the text's longest repeated suffix.

    The draft is one sequence of tokens without probabilities. shortest: the least length of the suffix.
    """

    def __init__(self, shortest: int = 1):
        self.shortest = whole("shortest", shortest, 1)
        self.name = f"n-grams from {self.shortest}"
        self._index = SuffixAutomaton()

    def new_run(self) -> NGram:
        """A drafter with the same settings and its own index, for one run."""
        return NGram(self.shortest)

    def propose(self, text_ids: Sequence[int], topology: Topology) -> list[list[int]]:
        """A list of at most one continuation. Its length is that of the topology's path of first children.

        At the text's end, the continuation goes on with its own first tokens.
        """
        self._index.follow(text_ids)
        match = self._index.whole_text.shorter
        if match is None or match.length < self.shortest:
            return []
        length = sum(not any(path) for path in topology.paths)
        return [list(islice(self._index.after(match), length))]
