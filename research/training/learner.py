"""A draft that learns a target's probabilities from records: the same for every pair."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from transformers import LlamaForCausalLM

from research.training.records import Place, Record, add_gradients, load, measured

NEW_RECORDS = 100
"""Steps after which records are read that another process has written since."""


@dataclass(frozen=True)
class Lessons:
    """What a step of a draft's training takes from the records.

    step_tokens: of one step. late: part of the training after which the rejection probabilities enter the
    loss. prompt_weight: in the loss, of a token that was given; the target's tokens have 1. temperatures: of
    the steps, in random order.
    """

    step_tokens: int
    late: float
    prompt_weight: float = 1.0
    temperatures: tuple[float, ...] = (1.0,)

    def lateness(self, progress: float) -> float:
        """`late` of `add_gradients`: it rises from 0 to 1 in a fifth of the training."""
        return min(1.0, max(0.0, (progress - self.late) / 0.2))


class Learner:
    """A draft that learns from records, of which more may come meanwhile.

    place: where each id stands in the draft's output. files: lists the records' files.
    """

    def __init__(
        self, model: LlamaForCausalLM, place: Place, files: Callable[[], Iterable[Path]], lessons: Lessons
    ):
        model.set_attn_implementation("specdec_plain")
        self.model, self.place, self.files, self.lessons = model, place, files, lessons
        self.steps = 0
        self.records: dict[Path, Record] = {}
        self.read_new_records()

    def read_new_records(self) -> None:
        """Reads the records that have come since the last call. Incomplete ones are left for later."""
        for path in self.files():
            try:
                self.records[path] = self.records.get(path) or load(path)
            except (OSError, RuntimeError, ValueError, EOFError):
                print(f"{path.name} can't be read yet", flush=True)

    def backward(self, progress: float, generator: torch.Generator) -> tuple[float, int]:
        """Adds the gradients of some rows of one record. Returns the loss and the number of tokens."""
        self.steps += 1
        if self.steps % NEW_RECORDS == 0:
            self.read_new_records()
        lessons, records = self.lessons, [*self.records.values()]
        record = records[_drawn(len(records), generator)]
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

        rows: a mask [rows] of those that count; None for all.
        """
        own = record["own"][:, 1:]
        counted = own if rows is None else own & rows[:, None]
        means = measured(self.model, self.place, record, heat)[:, counted.flatten()].mean(-1)
        return dict(zip(("kl", "gsd", "ersd"), means.tolist(), strict=True))


def _drawn(count: int, generator: torch.Generator) -> int:
    return int(torch.randint(count, (1,), generator=generator))
