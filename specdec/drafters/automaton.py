"""All strings of a text with their counts: a suffix automaton that grows with the text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

_COUNTED = 64


@dataclass(eq=False, slots=True)
class Occurring:
    """A state of the automaton: a set of token strings that all end at the same places of the text.

    length: the length of the longest of these strings. shorter: the state of its longest suffix that ends at
    more places; None for the empty string. next: for each token, the state after this token is appended.
    count: the number of places. last, previous: the last and the second to last place, as indices into the
    text; -1 if there is none.
    """

    length: int
    shorter: Occurring | None = None
    next: dict[int, Occurring] = field(default_factory=dict)
    count: int = 0
    last: int = -1
    previous: int = -1


class SuffixAutomaton:
    """All strings of a text, in memory and time linear in its length.

    A new token updates the counts and places of at most `_COUNTED` states: those of the longest strings that
    end with this token. More states need an update only if a text repeats a few tokens hundreds of times.
    Then the counts of the shortest strings are too small, and their places too early.

    whole_text: the state of the whole text. Its `shorter` has the text's longest suffix that occurred before.
    """

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self.text: list[int] = []
        self.empty = self.whole_text = Occurring(0)

    def follow(self, text_ids: Sequence[int]) -> None:
        """Make this the automaton of the given text.

        If the text extends the previous one, only new tokens are added.
        """
        if list(text_ids[: len(self.text)]) != self.text:
            self._begin()
        for token_id in text_ids[len(self.text) :]:
            self.extend(token_id)

    def after(self, match: Occurring) -> Iterator[int]:
        """Yields, without end, the tokens that followed the second to last occurrence of `match`.

        When it reaches the text's end, it continues with the tokens that it has yielded itself.
        """
        copied: list[int] = []
        for place in count(match.previous + 1):
            excess = place - len(self.text)
            copied.append(self.text[place] if excess < 0 else copied[excess])
            yield copied[-1]

    def extend(self, token_id: int) -> None:
        """Adds a token to the text."""
        new = Occurring(self.whole_text.length + 1)
        state: Occurring | None = self.whole_text
        while state is not None and token_id not in state.next:
            state.next[token_id], state = new, state.shorter
        new.shorter = self.empty if state is None else _of_length(state, token_id)
        self.whole_text, state = new, new
        for _ in range(_COUNTED):
            if state is None:
                break
            state.count, state.previous, state.last = state.count + 1, state.last, len(self.text)
            state = state.shorter
        self.text.append(token_id)


def _of_length(state: Occurring, token_id: int) -> Occurring:
    """The state whose longest string is the longest string of `state` plus this token. If no state has this
    string as its longest one, the state is split off from another state."""
    longer = state.next[token_id]
    if longer.length == state.length + 1:
        return longer
    split = Occurring(
        state.length + 1, longer.shorter, dict(longer.next), longer.count, longer.last, longer.previous
    )
    longer.shorter = split
    above: Occurring | None = state
    while above is not None and above.next.get(token_id) is longer:
        above.next[token_id], above = split, above.shorter
    return split
