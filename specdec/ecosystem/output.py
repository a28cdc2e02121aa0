"""The result of `generate`: transformers' own output, with the records of decoding and their acceptance."""

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
    """How many drafted tokens the target accepted for one row.

    rounds: target calls, without the prompt's. tokens: tokens that they emitted, also those after the row's
    end. drafted, accepted: numbers of tokens. by_depth: how often the first, second, ... drafted token of a
    round was accepted, if the round came that far (`specdec.stats.DepthAcceptance`).
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
        """Count the acceptance of a record."""
        rounds = generation.rounds
        return cls(
            rounds=len(rounds),
            tokens=len(generation.token_ids),
            drafted=sum(len(round.nodes) for round in rounds),
            accepted=sum(round.num_accepted for round in rounds),
            by_depth=tuple(acceptance_by_depth(rounds)),
        )

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        """What a notebook shows: a table of acceptance by depth."""
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
    """`GenerateDecoderOnlyOutput`, with a record and its acceptance for each row.

    generations: the `specdec.Generation` of each row, without texts. acceptance: counted from them. Both may
    include some tokens after a row's end, if a stopping criterion ended it.
    """

    generations: tuple[Generation, ...] | None = None
    acceptance: tuple[RequestAcceptance, ...] | None = None

    @classmethod
    def of(
        cls, sequences: Any, scores: Any, logits: Any, generations: Sequence[Generation]
    ) -> SpeculativeOutput:
        """The output of these records, with their acceptance."""
        return cls(
            sequences=sequences,
            scores=scores,
            logits=logits,
            generations=tuple(generations),
            acceptance=tuple(map(RequestAcceptance.of, generations)),
        )
