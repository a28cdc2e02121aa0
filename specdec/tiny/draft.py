"""Trains the draft: it learns the target's probabilities on the target's own text."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from transformers import LlamaForCausalLM

from specdec.tiny.llama import new_model
from specdec.tiny.recipe import Budget, Recipe, step_generator
from specdec.tiny.training import Loss, Trainer


class Gap(NamedTuple):
    """The distance of the draft from the target: means over positions, or one entry per position."""

    kl: Tensor  # KL divergence from the target, nats
    tv: Tensor  # total variation: GSD's probability of rejecting the first draft
    race: Tensor  # ERSD's probability of rejecting the first draft probability of rejecting the first draft


def train_draft(rank: int, world: int, work: Path, recipe: Recipe, budget: Budget) -> None:
    """Stage 4, in each process: trains on KL divergence first, then more on rejection probabilities."""
    recipe = replace(recipe, matrix_decay=recipe.draft_matrix_decay, decay_from=recipe.draft_decay_from)
    records, held_out = read_samples(work)
    model = new_model(recipe.draft, recipe)
    model.set_attn_implementation("specdec_plain")

    def losses(step: int, progress: float) -> Iterator[Loss]:
        model.train()
        generator = step_generator(recipe.seed, step, rank)
        record = records[int(torch.randint(len(records), (1,), generator=generator))]
        length = record["ids"].shape[1] - 1
        count = max(1, recipe.draft_step_tokens // world // length)
        gap = mean_gap(model, record, torch.randint(len(record["ids"]), (count,), generator=generator))
        late = min(1.0, max(0.0, (progress - 0.3) / 0.2))
        yield 1.0, (1 - 0.8 * late) * gap.kl + late * (gap.tv + gap.race), count * length

    @torch.no_grad()
    def evaluate() -> dict[str, float]:
        model.eval()
        gaps = [
            mean_gap(model, record, rows)
            for record in held_out
            for rows in torch.arange(0, len(record["ids"]), 4).split(8)
        ]
        kl, tv, race = torch.tensor(gaps).mean(0).tolist()
        return {"kl": kl, "gsd": 1 - tv, "ersd": 1 - race}

    Trainer("draft", model, recipe, budget, work, rank, world).run(losses, evaluate)


def read_samples(work: Path) -> tuple[list[dict], list[dict]]:
    """The records of samples: those to train on, and the first one of each process, which is held out."""
    records: list[dict] = []
    held_out: list[dict] = []
    for path in sorted(work.glob("samples-*.pt")):
        chosen = held_out if path.stem.endswith("-0") else records
        chosen.append(torch.load(path, mmap=True, weights_only=True))
    return records, held_out


def mean_gap(model: LlamaForCausalLM, record: dict[str, Tensor], rows: Tensor) -> Gap:
    """The mean gap over these rows of a record of samples."""
    ids, top, p = (record[name][rows] for name in ("ids", "top", "p"))
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(ids[:, :-1].long(), use_cache=False).logits
    gaps = gap(logits.float().flatten(0, 1), top.flatten(0, 1).long(), p.flatten(0, 1).float())
    return Gap(*(x.mean() for x in gaps))


def gap(logits: Tensor, top: Tensor, p: Tensor) -> Gap:
    """The gap at each position.

    logits: the draft's [positions, vocabulary].
    top, p: the target's most probable tokens and their probabilities, [positions, top]. All other tokens
    count as one outcome.
    """
    p = with_rest(p).clamp(min=1e-7)
    q = with_rest(logits.softmax(-1).gather(-1, top)).clamp(min=1e-7)
    kl = (p * (p.log() - q.log())).sum(-1)
    return Gap(kl, (p - q).abs().sum(-1) / 2, 1 - race_agreement(p, q))


def with_rest(p: Tensor) -> Tensor:
    """Appends an outcome with the probability that is missing to 1."""
    return torch.cat([p, (1 - p.sum(-1, keepdim=True)).clamp(min=1e-6)], -1)


def race_agreement(p: Tensor, q: Tensor) -> Tensor:
    """ERSD's acceptance of the first drafted token, Σ_i 1 / Σ_j max(p_j/p_i, q_j/q_i), in O(n log n).

    It is differentiable. With tokens sorted by falling p/q, the maximum is p_j/p_i for j before i and q_j/q_i
    from i on.
    """
    order = (p / q).argsort(-1, descending=True)
    p, q = p.gather(-1, order), q.gather(-1, order)
    p_before, q_from = p.cumsum(-1) - p, q.flip(-1).cumsum(-1).flip(-1)
    return (1 / (p_before / p + q_from / q)).sum(-1)
