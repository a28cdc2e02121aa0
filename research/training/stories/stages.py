"""The stages of the training: train the target, sample its text, train the draft, and write the pair."""

import json
import shutil
from dataclasses import asdict
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from research.training.learner import Learner, Lessons
from research.training.llama import ResidualDropout
from research.training.loop import Trainer, step_seed
from research.training.records import Record, load, sampled, scored, write_missing
from research.training.stories.measure import evaluate_target, keep, mean_loss
from research.training.stories.recipe import Recipe
from research.training.stories.texts import draw_rows, make_tokens, next_end, read_tokens, story_rows
from specdec import ModelPair
from specdec.models import HFModel

MODELS = ("target", "draft")
KINDS = ("own", "own", "stories", "own", "own, long", "own", "stories", "own")
"""The contents of successive files of samples: the target's own text, or stories."""
SHORT = 288  # tokens of a short row; most stories are shorter


def train(stories: Path, work: Path, out: Path, recipe: Recipe) -> None:
    """Trains tokenizer, target and draft on a file of stories, and writes the pair to `out`.

    Each stage saves its result in the work folder, and is not repeated. ValueError if the folder was begun
    with another recipe, or if the file has too few stories.
    """
    work.mkdir(parents=True, exist_ok=True)
    path, ours = work / "recipe.json", json.dumps(asdict(recipe), indent=1)
    if path.exists() and path.read_text(encoding="utf-8") != ours:
        raise ValueError(
            f"work = {str(work)!r} was begun with other settings, see {path.name}; give another folder"
        )
    path.write_text(ours, encoding="utf-8")
    if not (work / "tokens.pt").exists():
        make_tokens(stories, work, recipe)
    if not (work / "target.json").exists():
        train_target(work, recipe)
    samples = make_samples(work, recipe)
    if not (work / "draft.json").exists():
        train_draft(work, recipe, samples)
    write_pair(work, out)
    training = training_record(work, recipe, samples)
    keep(out, training=training, losses=evaluate_target(work, out, recipe.context))


def train_target(work: Path, recipe: Recipe) -> None:
    """Stage 2: trains the target on stories."""
    tokens = read_tokens(work)
    model, judge = recipe.model(recipe.target), recipe.model(recipe.target)
    model.set_attn_implementation("specdec_plain")
    dropout = ResidualDropout(model)
    parts = {
        "held_out": story_rows(tokens["stories_held_out"], recipe.context)[::4],
        "seen": story_rows(tokens["stories"], recipe.context)[::80],
    }

    def backward(progress: float, generator: torch.Generator) -> tuple[float, int]:
        phase = next(phase for phase in recipe.phases if progress < phase.until)
        dropout.rate = phase.dropout
        model.train()
        rows = max(1, recipe.micro_tokens // phase.length)
        micros = max(1, recipe.step_tokens // (rows * phase.length))
        total = 0.0
        for _ in range(micros):
            ids = draw_rows(tokens["stories"], phase.length, rows, generator)
            with torch.autocast("cpu", torch.bfloat16):
                logits = model(ids[:, :-1], use_cache=False).logits
            loss = F.cross_entropy(logits.float().flatten(0, 1), ids[:, 1:].flatten()) / micros
            loss.backward()
            total += loss.item()
        return total, micros * rows * phase.length

    def evaluate() -> dict[str, float]:
        judge.load_state_dict(model.state_dict())
        return {name: mean_loss(judge, rows) for name, rows in parts.items()}

    trainer = Trainer("target", model, recipe.target_rates, recipe.target_steps, work, recipe.seed)
    trainer.run(backward, evaluate)
    _write(trainer, work)


def make_samples(work: Path, recipe: Recipe) -> list[Path]:
    """Stage 3: makes the missing files of samples. The first file is held out of the training."""
    tokens = read_tokens(work)["stories"]
    model = LlamaForCausalLM.from_pretrained(work / "target", dtype=torch.float32).eval()
    paths = [work / f"samples-{number:03}.pt" for number in range(recipe.chunks)]
    for number, path in enumerate(paths):
        write_missing(path, partial(sample, ModelPair(HFModel(model)), tokens, recipe, number))
    return paths


def sample(pair: ModelPair, tokens: Tensor, recipe: Recipe, number: int) -> Record:
    """The record for a file of samples. Its contents depend only on the file's number and the recipe."""
    kind, seed = KINDS[number % len(KINDS)], step_seed(recipe.seed, number)
    generator = torch.Generator().manual_seed(seed)
    length = min(SHORT if kind == "own" else recipe.context, recipe.context - 1)
    rows = max(2, recipe.chunk_tokens // length)
    if kind == "stories":
        return scored(pair, draw_rows(tokens, length, rows, generator), recipe.top)
    return sampled(pair, openings(tokens, rows, generator), length, recipe.top, seed)


def openings(text: Tensor, rows: int, generator: torch.Generator) -> list[list[int]]:
    """The beginnings of sampled rows: an end token; every second row also has up to 24 tokens of a story."""
    prompts = []
    for row in range(rows):
        start = next_end(text, int(torch.randint(len(text) - 24, (1,), generator=generator)))
        length = int(torch.randint(1, 25, (1,), generator=generator)) if row % 2 else 0
        prompts.append([0, *text[start + 1 : start + 1 + length].tolist()])
    return prompts


def train_draft(work: Path, recipe: Recipe, samples: list[Path]) -> None:
    """Stage 4: trains the draft. The loss is the KL divergence, and later mostly rejection probabilities."""
    held_out, *records = map(load, samples)
    model, lessons = recipe.model(recipe.draft), Lessons(recipe.draft_step_tokens, late=0.3)
    learner = Learner(model, torch.arange(recipe.vocab_size), records, lessons)
    trainer = Trainer("draft", model, recipe.draft_rates, recipe.draft_steps, work, recipe.seed)
    trainer.run(learner.backward, lambda: learner.measure(held_out))
    _write(trainer, work)


def _write(trainer: Trainer, work: Path) -> None:
    """Writes the model and its history. The file of the history shows that this stage is finished."""
    trainer.model.set_attn_implementation("sdpa")
    trainer.model.save_pretrained(work / trainer.name)
    (work / f"{trainer.name}.json").write_text(json.dumps(trainer.history, indent=1), encoding="utf-8")


def write_pair(work: Path, out: Path) -> None:
    """Writes both models in half precision to OUT/target and OUT/draft, each with the tokenizer."""
    tokenizer = PreTrainedTokenizerFast.from_pretrained(work / "tokenizer")
    for name in MODELS:
        model = LlamaForCausalLM.from_pretrained(work / name, dtype=torch.float16)
        shutil.rmtree(out / name, ignore_errors=True)
        model.save_pretrained(out / name, max_shard_size="9MB")
        tokenizer.save_pretrained(out / name)


def training_record(work: Path, recipe: Recipe, samples: list[Path]) -> dict:
    """The record of a training: its recipe, the sizes of its texts, and the losses over time."""
    data = torch.load(work / "tokens.pt", weights_only=True)
    return {
        "recipe": asdict(recipe),
        "tokens": {name: len(row) for name, row in data["tokens"].items()},
        "characters": data["characters"],
        "sample_tokens": sum(record["ids"][:, 1:].numel() for record in map(load, samples)),
        **{name: json.loads((work / f"{name}.json").read_bytes()) for name in MODELS},
    }
