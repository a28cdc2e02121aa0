"""A draft that learns a target's probabilities from records: the same for every pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import LlamaForCausalLM

from research.training.records import Place, Record, add_gradients, measured


@dataclass(frozen=True)
class Lessons:
    """The settings of a draft's training on records.

    step_tokens: tokens of one step. late: the fraction of the training after which the rejection
    probabilities enter the loss. prompt_weight: the weight in the loss of a token that was given; the
    target's tokens have 1. temperatures: those of the steps, in random order.
    """

    step_tokens: int
    late: float
    prompt_weight: float = 1.0
    temperatures: tuple[float, ...] = (1.0,)

    def lateness(self, progress: float) -> float:
        """The argument `late` of `add_gradients`, which rises from 0 to 1 in a fifth of the training."""
        return min(1.0, max(0.0, (progress - self.late) / 0.2))


class Learner:
    """A draft and the records that it learns from. place: the index of each id in the draft's output."""

    def __init__(self, model: LlamaForCausalLM, place: Place, records: Sequence[Record], lessons: Lessons):
        model.set_attn_implementation("specdec_plain")
        self.model, self.place, self.records, self.lessons = model, place, records, lessons

    def backward(self, progress: float, generator: torch.Generator) -> tuple[float, int]:
        """Adds the gradients of some rows of one record. Returns the loss and the number of tokens."""
        lessons = self.lessons
        record = self.records[_drawn(len(self.records), generator)]
        length = record["ids"].shape[1] - 1
        count = max(1, lessons.step_tokens // length)
        rows = torch.randint(len(record["ids"]), (count,), generator=generator)
        heat = lessons.temperatures[_drawn(len(lessons.temperatures), generator)]
        weight = torch.where(record["own"][rows][:, 1:].flatten(), 1.0, lessons.prompt_weight)
        weight /= weight.sum()
        late = lessons.lateness(progress)
        return add_gradients(self.model, self.place, record, rows, late, weight, heat), count * length

    def measure(self, record: Record, heat: float = 1.0, rows: Tensor | None = None) -> dict[str, float]:
        """KL divergence in nats, and acceptance of the first child under GSD and ERSD, on the target's text.

        rows: a mask [rows] of the rows that count; None for all.
        """
        own = record["own"][:, 1:]
        counted = own if rows is None else own & rows[:, None]
        means = measured(self.model, self.place, record, heat)[:, counted.flatten()].mean(-1)
        return dict(zip(("kl", "gsd", "ersd"), means.tolist(), strict=True))


def _drawn(count: int, generator: torch.Generator) -> int:
    return int(torch.randint(count, (1,), generator=generator))
