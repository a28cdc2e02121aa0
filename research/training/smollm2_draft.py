"""Trains the draft for SmolLM2: the target writes text, and the draft learns the target's probabilities."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from research.training.chat_samples import chat_record
from research.training.files import save
from research.training.gap import gap_of
from research.training.llama import Shape
from research.training.partial import partial_model
from specdec.loading import load_pair
from specdec.models.partial import CONFIG, IDS, PROJECTION, WEIGHTS
from specdec.pair import ModelPair

SHAPE = Shape(2, 256, 704, 4)
HELD_OUT = 10_000
"""Added to the seeds of the records that measure."""
MEASURED = {"held-0.pt": 1.0, "held-1.pt": 0.7}
"""The records that measure, and the temperature of each."""
CHECKPOINT = "draft-checkpoint.pt"
CHUNK = 256
"""Positions whose logits are turned into a gradient at once: they stay in the processor's cache."""

Record = dict[str, Any]


@dataclass(frozen=True)
class Recipe:
    """The draft's shape and how it is trained."""

    shape: Shape = SHAPE
    scored: int = 8192  # ids that the draft scores
    context: int = 8192
    rows: int = 64  # of a record
    length: int = 512  # tokens of a row
    top: int = 96  # probabilities kept at each position
    step_rows: int = 8
    matrix_rate: float = 0.02
    vector_rate: float = 3e-3
    decay: float = 0.1  # of all matrices: the records are read several times
    warm_up: int = 40  # steps
    late: float = 0.5  # part of the training after which the rejection probabilities enter the loss
    prompt_weight: float = 0.2  # in the loss, of a token that the prompt gave; the target's tokens have 1
    temperatures: tuple[float, ...] = (1.0, 0.7)  # of the steps, in random order


@dataclass(frozen=True)
class Settings:
    """The files that a training reads and writes, and its length.

    stories: a file of texts, separated by <|endoftext|>. work: records and checkpoint. out: the draft.
    records: the least number of records; all that lie in the work folder are used. minutes: of processor
    time, for the draft.
    """

    stories: Path
    work: Path
    out: Path
    records: int
    minutes: float

    def __post_init__(self) -> None:
        if not self.stories.is_file():
            raise ValueError(f"stories = {str(self.stories)!r} is no file of texts")
        if self.records < 1:
            raise ValueError(f"records = {self.records}; at least 1")
        if not self.minutes > 0:
            raise ValueError(f"minutes = {self.minutes}; more than 0")


def train(settings: Settings, pair: ModelPair | None = None, recipe: Recipe = Recipe()) -> None:
    """Samples, trains, measures and writes the draft.

    Each stage continues from the results in the work folder. pair: has the target; SmolLM2 where it is None.
    """
    torch.set_num_threads(1)
    settings.work.mkdir(parents=True, exist_ok=True)
    pair = pair or load_pair("smollm2", device="cpu", dtype="bfloat16")
    target: Any = pair.target
    sample(settings, recipe, target.module, pair.tokenizer)
    training = Training(target.module.get_input_embeddings().weight.detach(), settings, recipe)
    training.run()
    acceptance = {
        f"T = {heat}": training.measure(_load(settings.work / name), heat) for name, heat in MEASURED.items()
    }
    print(json.dumps(acceptance), flush=True)
    training.write(settings.out)


def sample(settings: Settings, recipe: Recipe, module: Any, tokenizer: Any) -> None:
    """Writes the records that are missing: one for each measured temperature, and those to learn from."""
    stories = [text.strip() for text in settings.stories.read_text(encoding="utf-8").split("<|endoftext|>")]
    stories = [text for text in stories if text]
    random.Random(0).shuffle(stories)
    for name, options in _wanted(settings):
        path, started = settings.work / name, time.time()
        if path.exists():
            continue
        options |= {"rows": recipe.rows, "length": recipe.length, "top": recipe.top}
        save(path, chat_record(module, tokenizer, stories, **options))
        speed = recipe.rows * recipe.length / (time.time() - started)
        print(f"{name}: {speed:,.0f} tokens/s", flush=True)
    module.set_attn_implementation("sdpa")


def _wanted(settings: Settings) -> Iterator[tuple[str, dict[str, Any]]]:
    """Name and options of each record that a training needs, as far as they are not there."""
    for number, (name, heat) in enumerate(MEASURED.items()):
        yield name, {"seed": HELD_OUT + number, "held_out": True, "temperature": heat}
    number = 0
    while len(_records(settings.work)) < settings.records:
        yield f"train-{number:03}.pt", {"seed": number}
        number += 1


def _records(work: Path) -> list[Path]:
    """The records to learn from, in the order of their numbers."""
    return sorted(work.glob("train-*.pt"))


class Training:
    """The draft in training. It starts from the checkpoint in the work folder if there is one.

    embedding: the target's, [vocabulary, its width].
    """

    def __init__(self, embedding: Tensor, settings: Settings, recipe: Recipe):
        self.settings, self.recipe = settings, recipe
        self.records: dict[Path, Record] = {}
        self.read_new_records()
        self._checkpoint = settings.work / CHECKPOINT
        state = torch.load(self._checkpoint, weights_only=True) if self._checkpoint.exists() else None
        self.ids = most_used([*self.records.values()], len(embedding), recipe.scored)
        if state is not None:
            self.ids = state["ids"]
        self.place = torch.full((len(embedding),), -1)
        self.place[self.ids] = torch.arange(len(self.ids))
        self.model = partial_model(recipe.shape, embedding, self.ids, recipe.context, seed=0)
        self.model.set_attn_implementation("specdec_plain")
        matrices = [p for p in self.model.model.layers.parameters() if p.ndim == 2]
        others = [p for p in self.model.parameters() if not any(p is matrix for matrix in matrices)]
        ends = {"params": [p for p in others if p.ndim == 2], "weight_decay": recipe.decay}
        norms = {"params": [p for p in others if p.ndim < 2], "weight_decay": 0.0}
        muon = torch.optim.Muon(matrices, weight_decay=recipe.decay, momentum=0.95)
        adam = torch.optim.AdamW([ends, norms], betas=(0.9, 0.95))
        self.rates = {muon: recipe.matrix_rate, adam: recipe.vector_rate}
        self.step, self.seconds = 0, 0.0
        if state is not None:
            self.model.load_state_dict(state["model"], strict=False)  # the embedding is not saved
            for optimizer, saved in zip(self.rates, state["optimizers"], strict=True):
                optimizer.load_state_dict(saved)
            self.step, self.seconds = state["step"], state["seconds"]

    def run(self) -> None:
        """Trains until the processor time is spent: on KL divergence, then on rejection probabilities."""
        started = time.process_time() - self.seconds
        saved = shown = time.time()
        while (progress := self.seconds / (60 * self.settings.minutes)) < 1:
            gsd = self.one_step(progress)
            self.seconds = time.process_time() - started
            if time.time() - shown > 30:
                records = f"{len(self.records)} records"
                print(f"draft: step {self.step}, {progress:.1%}, {records}, GSD {gsd:.3f}", flush=True)
                shown = time.time()
            if time.time() - saved > 90:
                self.save()
                self.read_new_records()
                saved = time.time()
        self.save()

    def read_new_records(self) -> None:
        """Reads the records that have come since the last call. Incomplete ones are left for later."""
        for path in _records(self.settings.work):
            if path in self.records:
                continue
            try:
                self.records[path] = _load(path)
            except (OSError, RuntimeError, ValueError, EOFError):
                print(f"{path.name} can't be read yet", flush=True)

    def one_step(self, progress: float) -> float:
        """Trains on a few rows. Returns their mean acceptance under GSD."""
        recipe, generator = self.recipe, torch.Generator().manual_seed(self.step)
        records = [*self.records.values()]
        record = records[int(torch.randint(len(records), (1,), generator=generator))]
        rows = torch.randperm(len(record["ids"]), generator=generator)[: recipe.step_rows]
        heat = recipe.temperatures[int(torch.randint(len(recipe.temperatures), (1,), generator=generator))]
        late = min(1.0, max(0.0, (progress - recipe.late) / 0.2))
        weight = torch.where(record["own"][rows][:, 1:].flatten(), 1.0, recipe.prompt_weight)
        rejected = self.backward(record, rows, heat, late, weight / weight.sum())
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        factor = min(1.0, (self.step + 1) / recipe.warm_up, 2 * (1 - progress))
        for optimizer, rate in self.rates.items():
            for group in optimizer.param_groups:
                group["lr"] = rate * factor
            optimizer.step()
        self.model.zero_grad(set_to_none=True)
        self.step += 1
        return 1 - rejected

    def backward(self, record: Record, rows: Tensor, heat: float, late: float, weight: Tensor) -> float:
        """Adds the loss's gradients to the parameters. Returns the mean total variation.

        late: weight of the rejection probabilities, 0 to 1. weight: of each position, with the sum 1.
        """
        logits = self.logits(record, rows)  # [positions, scored]
        gradient, total = torch.empty_like(logits), 0.0
        for part, p, place in self._parts(record, rows, heat):
            with torch.no_grad():
                q = torch.softmax(logits[part].float().div_(heat), -1)
                q_top = q.gather(-1, place.clamp(min=0))
            q_top.requires_grad_()
            gap = gap_of(p, q_top, place >= 0, with_race=late > 0)
            loss = ((1 - 0.8 * late) * gap.kl + late * (gap.tv + gap.race)) @ weight[part]
            (slope,) = torch.autograd.grad(loss, q_top)
            total += float(gap.tv.detach().sum())
            with torch.no_grad():  # through the softmax: q (slope - sum of slope q)
                slope *= q_top
                q.mul_(-slope.sum(-1, keepdim=True)).scatter_add_(-1, place.clamp(min=0), slope)
                gradient[part] = q.div_(heat)
        logits.backward(gradient)
        return total / len(logits)

    def logits(self, record: Record, rows: Tensor) -> Tensor:
        """The draft's logits [positions, scored] along these rows, bfloat16."""
        with torch.autocast("cpu", torch.bfloat16):
            return self.model(record["ids"][rows][:, :-1].long(), use_cache=False).logits.flatten(0, 1)

    def _parts(self, record: Record, rows: Tensor, heat: float) -> Iterator[tuple[slice, Tensor, Tensor]]:
        """Some positions at a time, p [n, top] at this temperature, and the tokens' places in the output."""
        p, place = record["p"][rows].flatten(0, 1), self.place[record["top"][rows].long()].flatten(0, 1)
        for start in range(0, len(p), CHUNK):
            part = slice(start, min(start + CHUNK, len(p)))
            yield part, tempered(p[part].float(), heat), place[part]

    @torch.no_grad()
    def measure(self, record: Record, heat: float) -> dict[str, list[float]]:
        """Acceptance of the first child under GSD and ERSD on the target's text, in total and by kind."""
        gaps = []
        for rows in torch.arange(len(record["ids"])).split(8):
            logits = self.logits(record, rows)
            for part, p, place in self._parts(record, rows, heat):
                q = torch.softmax(logits[part].float().div_(heat), -1).gather(-1, place.clamp(min=0))
                gaps.append(gap_of(p, q, place >= 0))
        accepted = 1 - torch.stack([torch.cat([gap[n] for gap in gaps]) for n in (1, 2)])
        own, length = record["own"][:, 1:].flatten(), record["ids"].shape[1] - 1
        kinds = [kind for kind in record["kind"] for _ in range(length)]
        chosen = {"all": own}
        chosen |= {kind: own & torch.tensor([each == kind for each in kinds]) for kind in sorted(set(kinds))}
        return {kind: accepted[:, which].mean(-1).tolist() for kind, which in chosen.items()}

    def write(self, out: Path) -> None:
        """Writes the draft in bfloat16, in the form that `specdec.models.partial` loads."""
        state = {name: value.bfloat16().contiguous() for name, value in self.model.state_dict().items()}
        state[PROJECTION] = state.pop("model.embed_tokens.projection.weight")
        state[IDS] = self.ids.int()
        out.mkdir(parents=True, exist_ok=True)
        save_file(state, out / WEIGHTS, metadata={"format": "pt"})
        shape = self.recipe.shape
        entries = {
            "vocab_size": len(self.place),
            "hidden_size": shape.width,
            "intermediate_size": shape.inner,
            "num_hidden_layers": shape.layers,
            "num_attention_heads": shape.heads,
            "num_key_value_heads": shape.heads,
            "max_position_embeddings": self.recipe.context,
            "tie_word_embeddings": False,
        }
        (out / CONFIG).write_text(json.dumps(entries, indent=1) + "\n")

    def save(self) -> None:
        """Writes the checkpoint."""
        optimizers = [optimizer.state_dict() for optimizer in self.rates]
        state = {"ids": self.ids, "step": self.step, "seconds": self.seconds, "optimizers": optimizers}
        save(self._checkpoint, state | {"model": self.model.state_dict()})


def tempered(p: Tensor, heat: float) -> Tensor:
    """p [..., kept] at a temperature.

    All other tokens count as if each were as likely as the last one in p.
    """
    if heat == 1:
        return p
    last = p[..., -1:].clamp(min=1e-7)
    others = (1 - p.sum(-1, keepdim=True)).clamp(min=0) / last
    raised = p.pow(1 / heat)
    return raised / (raised.sum(-1, keepdim=True) + others * last.pow(1 / heat))


def most_used(records: list[Record], vocab_size: int, count: int) -> Tensor:
    """The ids with most of the target's probability in the records, in rising order."""
    used = torch.zeros(vocab_size, dtype=torch.float64)
    for record in records:
        used.index_add_(0, record["top"].flatten().long(), record["p"].flatten().double())
    return used.argsort(descending=True)[:count].sort().values


def _load(path: Path) -> Record:
    return torch.load(path, mmap=True, weights_only=True)
