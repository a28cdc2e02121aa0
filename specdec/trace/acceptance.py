"""How many drafted tokens were accepted, counted over the rounds of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Any

from specdec.trace.rounds import Round


def counted(rounds: Iterable[Round]) -> tuple[Counter[int], Counter[int]]:
    """For each child index: how many verified nodes had a child with it, and how many accepted that child."""
    offered, accepted = Counter[int](), Counter[int]()
    for _, index, children in chain.from_iterable(round.verified() for round in rounds):
        offered.update(range(children))
        accepted.update(() if index is None else (index,))
    return offered, accepted


@dataclass(frozen=True, slots=True)
class Acceptance:
    """How many drafted tokens the target accepted, counted as other engines count them (docs/api.md).

    mean_length: tokens per target call, including the token that the target adds; 0 without a call.
    rate_by_position: for each position in the path, the share of rounds with drafts that accepted a token
    there.
    rate_by_index: for each child index, the share of verified nodes with a child of this index that accepted
    it. histogram: the number of rounds with drafts that accepted 0, 1, 2, ... tokens.
    num_drafted, num_accepted: the number of drafted and of accepted tokens of all rounds.
    """

    mean_length: float
    rate_by_position: tuple[float, ...]
    rate_by_index: tuple[float, ...]
    histogram: tuple[int, ...]
    num_drafted: int
    num_accepted: int

    @classmethod
    def of(cls, rounds: Sequence[Round]) -> Acceptance:
        """Count the acceptance of these rounds."""
        drafting = [round for round in rounds if round.nodes]
        accepted = Counter(round.num_accepted for round in drafting)
        offered, of_index = counted(drafting)
        depth = max((len(round.nodes[-1].path) for round in drafting), default=0)
        return cls(
            mean_length=sum(len(round.tokens) for round in rounds) / len(rounds) if rounds else 0.0,
            rate_by_position=tuple(
                sum(round.num_accepted >= position for round in drafting) / len(drafting)
                for position in range(1, depth + 1)
            ),
            rate_by_index=tuple(of_index[index] / offered[index] for index in sorted(offered)),
            histogram=tuple(accepted[count] for count in range(max(accepted, default=-1) + 1)),
            num_drafted=sum(len(round.nodes) for round in drafting),
            num_accepted=sum(round.num_accepted for round in drafting),
        )

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        """A table of the rates, for notebooks."""
        from specdec.notebook.shown import counts

        rates = zip_longest(self.rate_by_position, self.rate_by_index)
        rows = [
            (f"{number}", *("" if rate is None else f"{rate:.0%}" for rate in pair))
            for number, pair in enumerate(rates)
        ]
        caption = f"{self.num_accepted} of {self.num_drafted} drafted tokens accepted"
        caption += f"; {self.mean_length:.2f} tokens per target call"
        return counts(caption, ("", "rate by position", "rate by index"), rows, repr(self))
