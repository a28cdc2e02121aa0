"""Trains the target on stories."""

from collections.abc import Iterator
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import LlamaForCausalLM

from research.training.llama import ResidualDropout
from research.training.stories.recipe import Budget, Phase, Recipe, new_model, step_generator
from research.training.stories.texts import draw_rows, story_rows
from research.training.stories.training import Loss, Trainer


def train_target(rank: int, world: int, work: Path, recipe: Recipe, budget: Budget, compiled: bool) -> None:
    """Stage 2, in each process: trains the target. compiled: whether steps go through torch.compile."""
    tokens = torch.load(work / "tokens.pt", weights_only=True)["tokens"]
    model, judge = new_model(recipe.target, recipe), new_model(recipe.target, recipe)
    model.set_attn_implementation("specdec_plain")
    dropout = ResidualDropout(model)
    forward = torch.compile(model, dynamic=False) if compiled else model
    parts = {
        "held_out": story_rows(tokens["stories_held_out"], recipe.context)[::4],
        "seen": story_rows(tokens["stories"], recipe.context)[::80],
    }

    def losses(step: int, progress: float) -> Iterator[Loss]:
        phase = phase_at(progress, recipe.phases)
        dropout.rate = phase.dropout
        model.train()
        rows = max(1, recipe.micro_tokens // phase.length)
        micros = max(1, recipe.step_tokens // world // (rows * phase.length))
        generator = step_generator(recipe.seed, step, rank)
        for _ in range(micros):
            ids = draw_rows(tokens["stories"], phase.length, rows, generator)
            with torch.autocast("cpu", torch.bfloat16):
                logits = forward(ids[:, :-1], use_cache=False).logits
            loss = F.cross_entropy(logits.float().flatten(0, 1), ids[:, 1:].flatten())
            yield 1 / micros, loss, rows * phase.length

    def evaluate() -> dict[str, float]:
        judge.load_state_dict(model.state_dict())
        return {name: mean_loss(judge, rows) for name, rows in parts.items()}

    Trainer("target", model, recipe, budget, work, rank, world).run(losses, evaluate)


def phase_at(progress: float, phases: tuple[Phase, ...]) -> Phase:
    """The phase of the training at this fraction of it."""
    return next((phase for phase in phases if progress < phase.until), phases[-1])


@torch.no_grad()
def mean_loss(model: LlamaForCausalLM, rows: list[Tensor], batch: int = 16) -> float:
    """Mean loss in nats per token over rows of different lengths, computed in bfloat16."""
    model.eval()
    total, count = 0.0, 0
    rows = sorted(rows, key=len)
    for at in range(0, len(rows), batch):
        ids = torch.nn.utils.rnn.pad_sequence(rows[at : at + batch], batch_first=True, padding_value=-100)
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(ids[:, :-1].clamp(min=0), use_cache=False).logits
        total += F.cross_entropy(logits.float().mT, ids[:, 1:], reduction="sum").item()
        count += int((ids[:, 1:] >= 0).sum())
    return total / count
