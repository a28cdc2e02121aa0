"""The stages that train the target, sample its text, and train the draft."""

import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import LlamaForCausalLM

from research.training.learner import Learner, Lessons
from research.training.llama import ResidualDropout
from research.training.loop import Budget, Trainer, save, step_seed
from research.training.records import load, sampled, scored
from research.training.stories.recipe import Recipe, new_model
from research.training.stories.texts import draw_rows, next_end, read_tokens, story_rows
from specdec.models import HFModel
from specdec.pair import ModelPair

KINDS = ("own", "own", "stories", "own", "own, long", "own", "stories", "own")
"""What the chunks of samples hold, in turn: text of the target, or stories."""
SHORT = 288
"""Tokens of a short row: most stories are shorter."""


def train_target(work: Path, recipe: Recipe, budget: Budget, compiled: bool) -> None:
    """Stage 2. compiled: whether steps go through torch.compile."""
    tokens = read_tokens(work)
    model, judge = new_model(recipe.target, recipe), new_model(recipe.target, recipe)
    model.set_attn_implementation("specdec_plain")
    dropout = ResidualDropout(model)
    forward = torch.compile(model, dynamic=False) if compiled else model
    parts = {
        "held_out": story_rows(tokens["stories_held_out"], recipe.context)[::4],
        "seen": story_rows(tokens["stories"], recipe.context)[::80],
    }

    def backward(progress: float, generator: torch.Generator) -> tuple[float, int]:
        phase = next((phase for phase in recipe.phases if progress < phase.until), recipe.phases[-1])
        dropout.rate = phase.dropout
        model.train()
        rows = max(1, recipe.micro_tokens // phase.length)
        micros = max(1, recipe.step_tokens // (rows * phase.length))
        total = 0.0
        for _ in range(micros):
            ids = draw_rows(tokens["stories"], phase.length, rows, generator)
            with torch.autocast("cpu", torch.bfloat16):
                logits = forward(ids[:, :-1], use_cache=False).logits
            loss = F.cross_entropy(logits.float().flatten(0, 1), ids[:, 1:].flatten()) / micros
            loss.backward()
            total += loss.item()
        return total, micros * rows * phase.length

    def evaluate() -> dict[str, float]:
        judge.load_state_dict(model.state_dict())
        return {name: mean_loss(judge, rows) for name, rows in parts.items()}

    trainer = Trainer("target", model, recipe.target_rates, budget, work, recipe.seed)
    trainer.run(backward, evaluate)
    trainer.write(work)


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


def make_samples(work: Path, recipe: Recipe, chunks: int) -> None:
    """Stage 3: writes samples-CHUNK.pt. Chunks that exist are not written again."""
    tokens = read_tokens(work)["stories"]
    model = LlamaForCausalLM.from_pretrained(work / "target", dtype=torch.float32).eval()
    pair = ModelPair(HFModel(model))
    for chunk in range(chunks):
        path, kind, started = work / f"samples-{chunk:03}.pt", KINDS[chunk % len(KINDS)], time.time()
        if path.exists():
            continue
        seed = step_seed(recipe.seed, chunk)
        generator = torch.Generator().manual_seed(seed)
        length = min(SHORT if kind == "own" else recipe.context, recipe.context - 1)
        rows = max(2, recipe.chunk_tokens // length)
        if kind.startswith("own"):
            record = sampled(pair, openings(tokens, rows, generator), length, recipe.top, seed)
        else:
            record = scored(pair, draw_rows(tokens, length, rows, generator), recipe.top)
        save(path, record)
        speed = rows * length / (time.time() - started)
        print(f"samples: chunk {chunk + 1} of {chunks} ({kind}), {speed:,.0f} tokens/s", flush=True)


def openings(text: Tensor, rows: int, generator: torch.Generator) -> list[list[int]]:
    """The beginnings of sampled rows: an end token, and in every second row up to 24 tokens of a story."""
    begun = []
    for row in range(rows):
        at = next_end(text, int(torch.randint(len(text) - 24, (1,), generator=generator)))
        length = int(torch.randint(1, 25, (1,), generator=generator)) if row % 2 else 0
        begun.append([0, *text[at + 1 : at + 1 + length].tolist()])
    return begun


def samples_in(work: Path) -> list[Path]:
    """The files of the samples, of which the first is held out."""
    return sorted(work.glob("samples-*.pt"))


def train_draft(work: Path, recipe: Recipe, budget: Budget) -> None:
    """Stage 4: trains on KL divergence first, then more on rejection probabilities."""
    model, lessons = new_model(recipe.draft, recipe), Lessons(recipe.draft_step_tokens, late=0.3)
    learner = Learner(model, torch.arange(recipe.vocab_size), lambda: samples_in(work)[1:], lessons)
    held_out = load(samples_in(work)[0])
    trainer = Trainer("draft", model, recipe.draft_rates, budget, work, recipe.seed)
    trainer.run(learner.backward, lambda: learner.measure(held_out))
    trainer.write(work)
