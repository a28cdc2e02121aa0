"""What `generate` returns: transformers' own output, with the records of decoding and their acceptance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from transformers.generation import GenerateDecoderOnlyOutput

from specdec.notebook.shown import counts
from specdec.stats import DepthAcceptance, acceptance_by_depth
from specdec.trace import Generation


@dataclass(frozen=True, slots=True)
class RequestAcceptance:
    """How often the target took what was drafted for one row.

    rounds: evaluations of the target, the prompt's aside. tokens: what they emitted, with what came after
    the row's end in the last of them. drafted, accepted: drafted tokens, and those that the target took.
    by_depth: how often a first, second, ... drafted token of a round was taken, of the rounds that came so
    far (`specdec.stats.DepthAcceptance`).
    """

    rounds: int
    tokens: int
    drafted: int
    accepted: int
    by_depth: tuple[DepthAcceptance, ...]

    @property
    def tokens_per_round(self) -> float:
        """tokens / rounds: the block efficiency."""
        return self.tokens / self.rounds if self.rounds else 0.0

    @classmethod
    def of(cls, generation: Generation) -> RequestAcceptance:
        """Counted from a record."""
        rounds = generation.rounds
        return cls(
            rounds=len(rounds),
            tokens=len(generation.token_ids),
            drafted=sum(len(round.nodes) for round in rounds),
            accepted=sum(round.num_accepted for round in rounds),
            by_depth=tuple(acceptance_by_depth(rounds)),
        )

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        """What a notebook shows: how often a first, second, ... drafted token was accepted."""
        rows = [
            (f"{each.depth}", f"{each.accepted}", f"{each.offered}", f"{each.rate:.0%}")
            for each in self.by_depth
        ]
        calls = f"{self.tokens} tokens in {self.rounds} target calls, {self.tokens_per_round:.2f} a call"
        caption = f"{self.accepted} of {self.drafted} drafted tokens accepted; {calls}"
        head = ("drafted token", "rounds that accepted one", "of rounds that came so far", "share")
        return counts(caption, head, rows, repr(self))


@dataclass
class SpeculativeOutput(GenerateDecoderOnlyOutput):
    """`GenerateDecoderOnlyOutput`, and for each of its rows the record and the acceptance.

    generations: `specdec.Generation` of each row, without texts. acceptance: what they say. Both may go on
    for a few tokens after the row's end, where other criteria than tokens that end a text stopped it.
    """

    generations: tuple[Generation, ...] | None = None
    acceptance: tuple[RequestAcceptance, ...] | None = None

    @classmethod
    def of(
        cls, sequences: Any, scores: Any, logits: Any, generations: Sequence[Generation]
    ) -> SpeculativeOutput:
        """The output of these records, whose acceptance is counted here."""
        return cls(
            sequences=sequences,
            scores=scores,
            logits=logits,
            generations=tuple(generations),
            acceptance=tuple(map(RequestAcceptance.of, generations)),
        )
