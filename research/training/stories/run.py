"""Runs all stages. Each leaves its result in the work folder, so that a stopped run goes on from there."""

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from research.training.loop import Budget
from research.training.records import load
from research.training.stories.measure import evaluate_target, keep
from research.training.stories.recipe import Recipe
from research.training.stories.stages import make_samples, samples_in, train_draft, train_target
from research.training.stories.texts import make_tokens


@dataclass(frozen=True)
class Run:
    """One run of all stages. ValueError for a number that is too small."""

    corpus: Path
    work: Path
    out: Path
    recipe: Recipe
    target: Budget
    draft: Budget
    chunks: int  # files of samples
    threads: int = 1
    compiled: bool = False

    def __post_init__(self) -> None:
        for name, least, why in (("threads", 1, ""), ("chunks", 2, ": the first is held out")):
            if getattr(self, name) < least:
                raise ValueError(f"{name} = {getattr(self, name)}; at least {least}{why}")


def train(run: Run) -> None:
    """Trains tokenizer, target and draft, and writes the pair with a record of its training."""
    work, recipe = run.work, run.recipe
    torch.set_num_threads(run.threads)
    work.mkdir(parents=True, exist_ok=True)
    check_same_run(run)
    if not (work / "tokens.pt").exists():
        make_tokens(run.corpus, work, recipe)
    if not (work / "target.json").exists():
        train_target(work, recipe, run.target, run.compiled)
    make_samples(work, recipe, run.chunks)
    if not (work / "draft.json").exists():
        train_draft(work, recipe, run.draft)
    write_pair(work, run.out)
    keep(run.out, training=training_record(run), losses=evaluate_target(work, run.out, recipe))


def check_same_run(run: Run) -> None:
    """ValueError if the work folder was begun with another recipe."""
    path, ours = run.work / "recipe.json", json.dumps(asdict(run.recipe), indent=1)
    if path.exists() and path.read_text() != ours:
        raise ValueError(
            f"work = {str(run.work)!r} was begun with other settings, see {path.name}; give another folder"
        )
    path.write_text(ours)


def write_pair(work: Path, out: Path) -> None:
    """Writes both models in half precision to OUT/target and OUT/draft, each with the tokenizer."""
    tokenizer = PreTrainedTokenizerFast.from_pretrained(work / "tokenizer")
    for name in ("target", "draft"):
        model = LlamaForCausalLM.from_pretrained(work / name, dtype=torch.float16)
        shutil.rmtree(out / name, ignore_errors=True)
        model.save_pretrained(out / name, max_shard_size="9MB")
        tokenizer.save_pretrained(out / name)
        for file in (out / name).iterdir():
            file.chmod(0o644)


def training_record(run: Run) -> dict:
    """The record of a training: models, texts, time, and the losses over time."""
    data = torch.load(run.work / "tokens.pt", weights_only=True)
    return {
        "recipe": asdict(run.recipe),
        "options": {name: getattr(run, name) for name in ("chunks", "threads", "compiled")},
        "budgets": {"target": asdict(run.target), "draft": asdict(run.draft)},
        "tokens": {name: len(row) for name, row in data["tokens"].items()},
        "characters": data["characters"],
        "sample_tokens": sum(record["ids"][:, 1:].numel() for record in map(load, samples_in(run.work))),
        **{name: json.loads((run.work / f"{name}.json").read_text()) for name in ("target", "draft")},
    }
