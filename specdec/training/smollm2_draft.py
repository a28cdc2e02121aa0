"""Trains the draft for SmolLM2: the target writes text, and the draft learns the target's probabilities."""

from __future__ import annotations

import json
import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor
from transformers import LlamaForCausalLM

from specdec.loading import load_pair
from specdec.models.partial import CONFIG, IDS, PROJECTION, WEIGHTS
from specdec.tiny.draft import race_agreement
from specdec.tiny.recipe import Shape
from specdec.tiny.texts import save
from specdec.training.chat_samples import chat_record
from specdec.training.partial import partial_model

SHAPE, SCORED, CONTEXT = Shape(2, 256, 704, 4), 6144, 8192
ROWS, LENGTH, TOP, STEP_ROWS = 64, 512, 96, 4
MATRIX_RATE, VECTOR_RATE, WARM_UP = 0.02, 3e-3, 20
PROMPT_WEIGHT = 0.2
"""Weight in the loss of a token that the prompt gave, where one that the target wrote has 1."""
TEMPERATURES = (1.0, 1.0, 0.7)
"""Of the steps, in random order: q and p are compared at one of them."""
HELD_OUT = 10_000
"""Added to the seeds of the records that measure."""

Record = dict[str, Any]


@dataclass(frozen=True)
class Settings:
    """The settings of a training, besides the constants above."""

    stories: Path
    work: Path
    out: Path
    records: int
    minutes: float


def train(settings: Settings) -> None:
    """Samples, trains, measures and writes the draft.

    Each stage continues from the results in the work folder.
    """
    torch.set_num_threads(1)
    settings.work.mkdir(parents=True, exist_ok=True)
    pair = load_pair("smollm2", device="cpu", dtype="bfloat16")
    target: Any = pair.target
    module = target.module
    sample(settings, module, pair.tokenizer)
    records = [_load(settings.work / f"train-{n:03}.pt") for n in range(settings.records)]
    ids = _most_used(settings.work / "ids.pt", records, module.config.vocab_size)
    training = Training(module.get_input_embeddings().weight.detach(), ids, settings)
    training.run(records)
    acceptance = {
        f"T = {heat}": training.measure(_load(settings.work / f"held-{n}.pt"), heat)
        for n, heat in enumerate((1.0, 0.7))
    }
    print(json.dumps(acceptance), flush=True)
    training.write(settings.out, module.config.vocab_size)


def sample(settings: Settings, module: LlamaForCausalLM, tokenizer: Any) -> None:
    """Writes the records that are missing: those to learn from, and one for each temperature to measure."""
    stories = [text.strip() for text in settings.stories.read_text(encoding="utf-8").split("<|endoftext|>")]
    stories = [text for text in stories if text]
    random.Random(0).shuffle(stories)
    wanted: list[tuple[str, dict[str, Any]]] = [
        (f"held-{n}.pt", {"seed": HELD_OUT + n, "held_out": True, "temperature": heat})
        for n, heat in enumerate((1.0, 0.7))
    ]
    wanted += [(f"train-{n:03}.pt", {"seed": n}) for n in range(settings.records)]
    for name, options in wanted:
        path, started = settings.work / name, time.time()
        if not path.exists():
            save(path, chat_record(module, tokenizer, stories, rows=ROWS, length=LENGTH, top=TOP, **options))
            print(f"{name}: {ROWS * LENGTH / (time.time() - started):,.0f} tokens/s", flush=True)
    module.set_attn_implementation("sdpa")


class Training:
    """The draft in training. It starts from the checkpoint in the work folder if there is one."""

    def __init__(self, embedding: Tensor, ids: Tensor, settings: Settings):
        self.ids, self.settings = ids, settings
        self.place = torch.full((len(embedding),), -1)
        self.place[ids] = torch.arange(len(ids))
        self.model = partial_model(SHAPE, embedding, ids, CONTEXT, seed=0)
        self.model.set_attn_implementation("specdec_plain")
        matrices = [p for p in self.model.model.layers.parameters() if p.ndim == 2]
        others = [p for p in self.model.parameters() if not any(p is matrix for matrix in matrices)]
        muon = torch.optim.Muon(matrices, weight_decay=0.01, momentum=0.95)
        adam = torch.optim.AdamW(others, betas=(0.9, 0.95), weight_decay=0.0)
        self.rates = {muon: MATRIX_RATE, adam: VECTOR_RATE}
        self.step, self.seconds = 0, 0.0
        self._checkpoint = settings.work / "draft.pt"
        if self._checkpoint.exists():
            self._resume()

    def run(self, records: list[Record]) -> None:
        """Trains until the processor time is spent: on KL divergence, then on rejection probabilities."""
        started = time.process_time() - self.seconds
        saved = shown = time.time()
        while (progress := self.seconds / (60 * self.settings.minutes)) < 1:
            gsd = self._one_step(records, progress)
            self.step, self.seconds = self.step + 1, time.process_time() - started
            if time.time() - shown > 30:
                print(f"draft: step {self.step}, {progress:.1%}, GSD accepts {gsd:.3f}", flush=True)
                shown = time.time()
            if time.time() - saved > 90:
                self._save()
                saved = time.time()
        self._save()

    def _one_step(self, records: list[Record], progress: float) -> float:
        """Trains on a few rows. Returns their mean acceptance under GSD."""
        generator = torch.Generator().manual_seed(self.step)
        record = records[int(torch.randint(len(records), (1,), generator=generator))]
        rows = torch.randperm(ROWS, generator=generator)[:STEP_ROWS]
        heat = TEMPERATURES[int(torch.randint(len(TEMPERATURES), (1,), generator=generator))]
        late = min(1.0, max(0.0, (progress - 0.5) / 0.2))
        kl, tv, race = self.gap(record, rows, heat)
        weight = torch.where(record["own"][rows][:, 1:].flatten(), 1.0, PROMPT_WEIGHT)
        loss = ((1 - 0.8 * late) * kl + late * (tv + race)) @ (weight / weight.sum())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        factor = min(1.0, (self.step + 1) / WARM_UP, 2 * (1 - progress))
        for optimizer, rate in self.rates.items():
            for group in optimizer.param_groups:
                group["lr"] = rate * factor
            optimizer.step()
        self.model.zero_grad(set_to_none=True)
        return 1 - tv.mean().item()

    def gap(self, record: Record, rows: Tensor, heat: float) -> tuple[Tensor, Tensor, Tensor]:
        """KL divergence (nats), total variation and ERSD's rejection, [rows x length], at a temperature."""
        p = _tempered(record["p"][rows].float(), heat).flatten(0, 1)
        place = self.place[record["top"][rows].long()].flatten(0, 1)
        with torch.autocast("cpu", torch.bfloat16):
            logits = self.model(record["ids"][rows][:, :-1].long(), use_cache=False).logits
        logits = logits.float().flatten(0, 1) / heat
        inside = place >= 0  # the others are tokens that the draft never proposes
        log_q = logits.gather(-1, place.clamp(min=0)) - logits.logsumexp(-1, keepdim=True)
        q, known = log_q.exp() * inside, p * inside
        p_rest, q_rest = ((1 - each.sum(-1, keepdim=True)).clamp(min=1e-6) for each in (p, q))
        kl = (known * (known.clamp(min=1e-8).log() - torch.where(inside, log_q, 0))).sum(-1)
        kl = kl + (p_rest * (p_rest.log() - q_rest.log()))[:, 0]
        never = (p * ~inside).sum(-1, keepdim=True)
        of_p = torch.cat([known, p_rest, never], -1)
        of_q = torch.cat([q, q_rest, torch.zeros_like(q_rest)], -1)
        race = 1 - race_agreement(of_p.clamp(min=1e-8), of_q.clamp(min=1e-8))
        return kl, (of_p - of_q).abs().sum(-1) / 2, race

    @torch.no_grad()
    def measure(self, record: Record, heat: float) -> dict[str, list[float]]:
        """Acceptance of the first child under GSD and ERSD on the target's text, in total and by kind."""
        gaps = [self.gap(record, rows, heat) for rows in torch.arange(ROWS).split(8)]
        accepted = 1 - torch.stack([torch.cat([gap[n] for gap in gaps]) for n in (1, 2)])
        own, length = record["own"][:, 1:].flatten(), record["ids"].shape[1] - 1
        kinds = [kind for kind in record["kind"] for _ in range(length)]
        chosen = {"all": own}
        chosen |= {kind: own & torch.tensor([each == kind for each in kinds]) for kind in sorted(set(kinds))}
        return {kind: accepted[:, which].mean(-1).tolist() for kind, which in chosen.items()}

    def write(self, out: Path, vocab_size: int) -> None:
        """Writes the draft in bfloat16, in the form that `specdec.models.partial` loads."""
        state = {name: value.bfloat16().contiguous() for name, value in self.model.state_dict().items()}
        state[PROJECTION] = state.pop("model.embed_tokens.projection.weight")
        state[IDS] = self.ids.int()
        out.mkdir(parents=True, exist_ok=True)
        save_file(state, out / WEIGHTS, metadata={"format": "pt"})
        entries = {
            "vocab_size": vocab_size,
            "hidden_size": SHAPE.width,
            "intermediate_size": SHAPE.inner,
            "num_hidden_layers": SHAPE.layers,
            "num_attention_heads": SHAPE.heads,
            "num_key_value_heads": SHAPE.heads,
            "max_position_embeddings": CONTEXT,
            "tie_word_embeddings": False,
        }
        (out / CONFIG).write_text(json.dumps(entries, indent=1) + "\n")

    def _save(self) -> None:
        optimizers = [optimizer.state_dict() for optimizer in self.rates]
        counters = {"step": self.step, "seconds": self.seconds}
        save(self._checkpoint, counters | {"optimizers": optimizers, "model": self.model.state_dict()})

    def _resume(self) -> None:
        state = torch.load(self._checkpoint, weights_only=True)
        self.model.load_state_dict(state["model"], strict=False)  # the embedding is not saved
        for optimizer, saved in zip(self.rates, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        self.step, self.seconds = state["step"], state["seconds"]


def _tempered(p: Tensor, heat: float) -> Tensor:
    """p [..., kept] at a temperature.

    All other tokens count as if each were as likely as the last one in p.
    """
    if heat == 1:
        return p
    last = p[..., -1:].clamp(min=1e-7)
    others = (1 - p.sum(-1, keepdim=True)).clamp(min=0) / last
    raised = p.pow(1 / heat)
    return raised / (raised.sum(-1, keepdim=True) + others * last.pow(1 / heat))


def _most_used(path: Path, records: list[Record], vocab_size: int) -> Tensor:
    """The ids with most of the target's probability in the records, in rising order.

    They are chosen once and then read from the work folder.
    """
    if not path.exists():
        used = torch.zeros(vocab_size, dtype=torch.float64)
        for record in records:
            used.index_add_(0, record["top"].flatten().long(), record["p"].flatten().double())
        save(path, used.argsort(descending=True)[:SCORED].sort().values)
    return torch.load(path, weights_only=True)


def _load(path: Path) -> Record:
    return torch.load(path, mmap=True, weights_only=True)
