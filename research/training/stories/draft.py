"""Trains the draft: it learns the target's probabilities on the target's own text."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor
from transformers import LlamaForCausalLM

from research.training.gap import Gap, gap_of
from research.training.stories.recipe import Budget, Recipe, new_model, step_generator
from research.training.stories.training import Loss, Trainer


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
    q = logits.float().softmax(-1).gather(-1, top.long())
    return Gap(*(x.mean() for x in gap_of(p.float().flatten(0, 1), q.flatten(0, 1))))
