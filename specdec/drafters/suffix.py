"""Drafting from the text's own statistics, with chances: a q from what followed each of its suffixes."""

from __future__ import annotations

from collections.abc import Sequence

from specdec.checks import whole
from specdec.drafters.automaton import Occurring, SuffixAutomaton


class Suffix:
    """Drafts from the counts of what followed the text's suffixes so far: no model, any tree, and a q.

    Prediction by partial matching, method C (Moffat 1990): the longest suffix that was there before says
    what followed it how often; the chance of a token that was never there is that of all new ones so
    far, and is left to the next shorter suffix. shortest: tokens that a suffix must have to be asked.
    """

    def __init__(self, shortest: int = 1):
        self.shortest = whole("shortest", shortest, 0)
        self.name = f"suffixes from {self.shortest}"
        self._seen = SuffixAutomaton()

    def new_run(self) -> Suffix:
        """One with an index of its own."""
        return Suffix(self.shortest)

    def law(self, text_ids: Sequence[int], drafted_ids: Sequence[int]) -> dict[int, float]:
        """Weights of what follows text and drafted tokens; none where no suffix was there before."""
        self._seen.follow(text_ids)
        state, length = self._longest(drafted_ids)
        weights: dict[int, float] = {}
        left = 1.0
        while state is not None and length >= self.shortest:
            counts = {token_id: after.count for token_id, after in state.next.items()}
            total = sum(counts.values()) + len(counts)
            for token_id, count in counts.items():
                weights[token_id] = weights.get(token_id, 0.0) + left * count / total
            left *= len(counts) / total if counts else 1.0
            state = state.shorter
            length = state.length if state else 0
        return weights

    def _longest(self, drafted_ids: Sequence[int]) -> tuple[Occurring | None, int]:
        """The longest suffix of text and drafted tokens that was there before, and its length."""
        state = self._seen.whole.shorter
        length = state.length if state else 0
        for token_id in drafted_ids:
            while state is not None and token_id not in state.next:
                state = state.shorter
                length = state.length if state else 0
            if state is None:
                return self._seen.empty, 0
            state, length = state.next[token_id], length + 1
        return state, length
