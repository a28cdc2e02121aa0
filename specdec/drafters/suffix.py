"""Drafting from the text's own statistics: q comes from the tokens that followed each suffix of the text."""

from __future__ import annotations

from collections.abc import Sequence

from specdec.checks import whole
from specdec.drafters.automaton import Occurring, SuffixAutomaton


class Suffix:
    """An `Estimator` that drafts trees of any topology. Its probabilities come from counts of the tokens that
    followed the text's suffixes earlier in the text.

    This is prediction by partial matching, method C (Moffat 1990). It starts with the longest suffix that
    occurred before, and counts the tokens that followed it. Some probability is left for other tokens: the
    more different tokens followed the suffix, the more is left. The counts of the next shorter suffix
    distribute it. shortest: suffixes of fewer tokens are not used; 0 allows the empty suffix too.
    """

    def __init__(self, shortest: int = 1):
        self.shortest = whole("shortest", shortest, 0)
        self.name = f"suffixes from {self.shortest}"
        self._index = SuffixAutomaton()

    def new_run(self) -> Suffix:
        """A drafter with the same settings and its own index, for one run."""
        return Suffix(self.shortest)

    def distribution(self, text_ids: Sequence[int], drafted_ids: Sequence[int]) -> dict[int, float]:
        """Weights of the token after the text and these drafted tokens; empty if no suffix is known."""
        self._index.follow(text_ids)
        state, length = self._longest(drafted_ids)
        weights: dict[int, float] = {}
        escape = 1.0  # the probability left for tokens that did not follow a longer suffix
        while state is not None and length >= self.shortest:
            counts = {token_id: following.count for token_id, following in state.next.items()}
            total = sum(counts.values()) + len(counts)
            for token_id, count in counts.items():
                weights[token_id] = weights.get(token_id, 0.0) + escape * count / total
            escape *= len(counts) / total if counts else 1.0
            state = state.shorter
            length = state.length if state else 0
        return weights

    def _longest(self, drafted_ids: Sequence[int]) -> tuple[Occurring | None, int]:
        """The longest suffix of the text and these drafted tokens that occurred before, and its length."""
        state = self._index.whole_text.shorter
        length = state.length if state else 0
        for token_id in drafted_ids:
            while state is not None and token_id not in state.next:
                state = state.shorter
                length = state.length if state else 0
            if state is None:
                return self._index.empty, 0
            state, length = state.next[token_id], length + 1
        return state, length
