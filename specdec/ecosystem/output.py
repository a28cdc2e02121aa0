"""The result of `generate`: transformers' own output, with the record and the acceptance of each row."""

from __future__ import annotations

from dataclasses import dataclass

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
