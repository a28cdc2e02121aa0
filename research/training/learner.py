"""Trains a draft on records of a target's probabilities. All pairs use this code."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from transformers import LlamaForCausalLM

from research.training.records import Record

CHUNK = 256  # positions whose gradients are computed together, so that their logits fit into the cache


class Gap(NamedTuple):
    """The distance of the draft from the target by three measures, one entry per position."""

    kl: Tensor  # KL divergence from the target, nats
    tv: Tensor  # total variation: GSD's probability of rejecting the first draft
    race: Tensor  # ERSD's probability of rejecting the first draft


def gap_of(p: Tensor, q: Tensor, inside: Tensor | None = None, with_race: bool = True) -> Gap:
    """The gap at each position. Only the target's most probable tokens were kept; all others are one outcome.

    p, q: probabilities of the kept tokens, [positions, top]. inside: which kept tokens the draft scores; None
    for all; q is 0 for the others. with_race: if False, `race` is 0, because computing it requires sorting.
    """
    inside = torch.ones_like(p, dtype=torch.bool) if inside is None else inside
    q, p_inside = q * inside, p * inside
    p_rest, q_rest = ((1 - each.sum(-1, keepdim=True)).clamp(min=1e-6) for each in (p, q))
    p_outside = (p * ~inside).sum(-1, keepdim=True)
    of_p = torch.cat([p_inside, p_rest, p_outside], -1)
    of_q = torch.cat([q, q_rest, torch.zeros_like(q_rest)], -1)
    scored_p, scored_q = of_p[:, :-1].clamp(min=1e-20), of_q[:, :-1].clamp(min=1e-20)
    kl = (of_p[:, :-1] * (scored_p.log() - scored_q.log())).sum(-1)
    tv = (of_p - of_q).abs().sum(-1) / 2
    if not with_race:
        return Gap(kl, tv, torch.zeros_like(tv))
    return Gap(kl, tv, 1 - race_agreement(of_p.clamp(min=1e-8), of_q.clamp(min=1e-8)))


def race_agreement(p: Tensor, q: Tensor) -> Tensor:
    """ERSD's acceptance of the first drafted token, Σ_i 1 / Σ_j max(p_j/p_i, q_j/q_i), in O(n log n).

    The result is differentiable. With tokens sorted by falling p/q, the maximum is p_j/p_i for j before i,
    and q_j/q_i for all other j.
    """
    order = (p / q).argsort(-1, descending=True)
    p, q = p.gather(-1, order), q.gather(-1, order)
    p_before, q_from = p.cumsum(-1) - p, q.flip(-1).cumsum(-1).flip(-1)
    return (1 / (p_before / p + q_from / q)).sum(-1)


@dataclass(frozen=True)
class Lessons:
    """The settings of a draft's training on records."""

    step_tokens: int  # of one step
    late: float  # the share of the training after which the rejection probabilities enter the loss
    prompt_weight: float = 1.0  # the weight of a prompt's token in the loss; generated tokens have weight 1
    temperatures: tuple[float, ...] = (1.0,)  # each step draws one of these at random


class Learner:
    """A draft model and the records from which it learns.

    place: [vocabulary], each id's index in the draft's output, or -1 if the draft does not score the id.
    """

    def __init__(self, model: LlamaForCausalLM, place: Tensor, records: Sequence[Record], lessons: Lessons):
        model.set_attn_implementation("specdec_plain")
        self.model, self.place, self.records, self.lessons = model, place, records, lessons

    def backward(self, progress: float, generator: torch.Generator) -> tuple[float, int]:
        """Adds the gradients of some rows of one record. Returns the loss and the number of tokens."""
        lessons = self.lessons
        record = self.records[_random_below(len(self.records), generator)]
        length = record["ids"].shape[1] - 1
        count = max(1, lessons.step_tokens // length)
        rows = torch.randint(len(record["ids"]), (count,), generator=generator)
        heat = lessons.temperatures[_random_below(len(lessons.temperatures), generator)]
        weight = torch.where(record["own"][rows][:, 1:].flatten(), 1.0, lessons.prompt_weight)
        late = min(1.0, max(0.0, (progress - lessons.late) / 0.2))  # from 0 to 1 in a fifth of the training
        return self.add_gradients(record, rows, late, weight / weight.sum(), heat), count * length

    def add_gradients(
        self, record: Record, rows: Tensor, late: float, weight: Tensor, heat: float = 1.0
    ) -> float:
        """Adds the gradients of the draft's loss on some rows. Returns the loss.

        late: from 0 to 1. At 0 the loss is the KL divergence. At 1 it is 0.2 times the KL divergence, plus
        GSD's and ERSD's rejection probabilities. weight: [positions], which sum to 1. heat: the temperature
        of both models.
        """
        logits = self.logits(record, rows)  # [positions, scored]
        gradient, total = torch.empty_like(logits), 0.0
        for part, p, places in self._parts(record, rows, heat):
            scaled = logits[part].detach().float().div_(heat).requires_grad_()
            gap = gap_of(p, _scored(scaled, places), places >= 0, with_race=late > 0)
            loss = ((1 - 0.8 * late) * gap.kl + late * (gap.tv + gap.race)) @ weight[part]
            (slope,) = torch.autograd.grad(loss, scaled)
            gradient[part] = slope.div_(heat)
            total += loss.item()
        logits.backward(gradient)
        return total

    @torch.no_grad()
    def measure(self, record: Record, heat: float = 1.0, rows: Tensor | None = None) -> dict[str, float]:
        """KL divergence in nats, and acceptance of the first child under GSD and under ERSD, on the tokens
        that the target itself generated.

        rows: a mask of the record's rows that count; None for all.
        """
        gaps = []
        for some in torch.arange(len(record["ids"])).split(8):
            logits = self.logits(record, some)
            for part, p, places in self._parts(record, some, heat):
                gap = gap_of(p, _scored(logits[part].float() / heat, places), places >= 0)
                gaps.append(torch.stack([gap.kl, 1 - gap.tv, 1 - gap.race]))
        own = record["own"][:, 1:]
        mask = own if rows is None else own & rows[:, None]
        means = torch.cat(gaps, -1)[:, mask.flatten()].mean(-1)
        return dict(zip(("kl", "gsd", "ersd"), means.tolist(), strict=True))

    def logits(self, record: Record, rows: Tensor) -> Tensor:
        """The draft's logits [positions, scored ids] on these rows of a record, bfloat16."""
        with torch.autocast("cpu", torch.bfloat16):
            return self.model(record["ids"][rows][:, :-1].long(), use_cache=False).logits.flatten(0, 1)

    def _parts(self, record: Record, rows: Tensor, heat: float) -> Iterator[tuple[slice, Tensor, Tensor]]:
        """Yields slices of n positions, p [n, kept] at temperature `heat`, and the tokens' output indices."""
        p, places = record["p"][rows].flatten(0, 1), self.place[record["top"][rows].long()].flatten(0, 1)
        for start in range(0, len(p), CHUNK):
            part = slice(start, min(start + CHUNK, len(p)))
            yield part, tempered(p[part].float(), heat), places[part]


def tempered(p: Tensor, heat: float) -> Tensor:
    """p [..., kept] at the temperature `heat`. A token that was not kept counts like the last kept one."""
    if heat == 1:
        return p
    last = p[..., -1:].clamp(min=1e-7)
    share = (1 - p.sum(-1, keepdim=True)).clamp(min=0) / last
    powers = p.pow(1 / heat)
    return powers / (powers.sum(-1, keepdim=True) + share * last.pow(1 / heat))


def _scored(logits: Tensor, places: Tensor) -> Tensor:
    return logits.softmax(-1).gather(-1, places.clamp(min=0))


def _random_below(count: int, generator: torch.Generator) -> int:
    return int(torch.randint(count, (1,), generator=generator))
