"""The result of `generate`: transformers' own output, with the record and the acceptance of each row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from transformers.generation import GenerateDecoderOnlyOutput

from specdec.trace import Acceptance, Generation


@dataclass
class SpeculativeOutput(GenerateDecoderOnlyOutput):
    """`GenerateDecoderOnlyOutput` with a record of decoding and the acceptance for each row.

    generations: the `specdec.Generation` of each row, without texts. acceptance: counted from these records.
    If a stopping criterion ended a row, both may include some tokens after the row's end.
    """

    generations: tuple[Generation, ...] | None = None
    acceptance: tuple[Acceptance, ...] | None = None

    @classmethod
    def of(
        cls, sequences: Any, scores: Any, logits: Any, generations: Sequence[Generation]
    ) -> SpeculativeOutput:
        """The output with these records, and with the acceptance that they show."""
        return cls(
            sequences=sequences,
            scores=scores,
            logits=logits,
            generations=tuple(generations),
            acceptance=tuple(generation.acceptance for generation in generations),
        )
