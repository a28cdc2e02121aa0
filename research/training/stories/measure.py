"""Measures the trained pair: losses, times, and how well the draft predicts the target."""

import json
import math
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import Cache, DynamicCache, LlamaForCausalLM

import specdec
from research.training.records import load, sampled
from research.training.stories.texts import story_rows
from specdec import ModelPair, theory
from specdec.bench.measure import least_seconds
from specdec.commands import write_json
from specdec.learn import scored
from specdec.models.cache import cache_argument
from specdec.probs import Sampling
from specdec.theory import estimate_ersd_acceptance_by_index, estimate_gsd_acceptance_by_index

TOKENS = (1, 5, 17)  # the numbers of tokens for which a forward pass is timed
ESTIMATES = {"gsd": estimate_gsd_acceptance_by_index, "ersd": estimate_ersd_acceptance_by_index}
RUN = 24  # a sequence of this many tokens counts as copied if it occurs in the training stories


def measure(out: Path, smoke: bool = False) -> None:
    """Stage 5: measures the pair in `out` on one thread and writes the figures to its measurements.json."""
    torch.set_num_threads(1)
    pair = specdec.load_pair(out / "target", draft=out / "draft", device="cpu", dtype="float32")
    models: dict[str, Any] = {"target": pair.target, "draft": pair.drafting}
    keep(
        out,
        bytes={n: [path.stat().st_size for path in (out / n).glob("*.safetensors")] for n in models},
        parameters={n: model.module.num_parameters() for n, model in models.items()},
        cost=measure_cost({n: model.module for n, model in models.items()}, 2 if smoke else 200),
        acceptance=measure_acceptance(pair, *((4, 16, 8) if smoke else (96, 224, 2000))),
    )


def keep(out: Path, **figures: object) -> None:
    """Adds figures, by name, to the file measurements.json in `out`."""
    path = out / "measurements.json"
    write_json(path, (json.loads(path.read_bytes()) if path.exists() else {}) | figures)


@torch.inference_mode()
def measure_cost(models: dict[str, LlamaForCausalLM], times: int) -> dict:
    """Milliseconds of a cached forward pass over 1, 5 and 17 tokens; and target / draft for one token.

    The cached prefix has 128 tokens. All forward passes take turns, `times` times. The fastest counts,
    because other work on the machine only adds time.
    """

    def read(model: LlamaForCausalLM, cache: Cache, tokens: int) -> None:
        model(torch.ones(1, tokens, dtype=torch.long), use_cache=True, **{cache_argument(model): cache})

    def forward(model: LlamaForCausalLM, cache: Cache, tokens: int) -> None:
        read(model, cache, tokens)
        cache.crop(-tokens)

    work: dict[tuple[str, int], Callable[[], None]] = {}
    for name, model in models.items():
        read(model, cache := DynamicCache(), 128)
        work |= {(name, n): partial(forward, model, cache, n) for n in TOKENS}
    seconds = least_seconds(work, times, time.perf_counter)
    cost = {name: {n: 1000 * seconds[name, n] for n in TOKENS} for name in models}
    return cost | {"ratio": cost["target"][1] / cost["draft"][1]}


def measure_acceptance(pair: ModelPair, rows: int, length: int, positions: int) -> dict:
    """Acceptance of the first draft on the target's text, and acceptance by index at random positions."""
    ids = sampled(pair, [[0]] * rows, length, 1, seed=12345)["ids"].tolist()
    p, q = (  # [rows, length, vocabulary]
        torch.stack([scored(model, row, 1, pair, Sampling()).double().exp() for row in ids])
        for model in (pair.target, pair.drafting)
    )
    places = torch.randperm(rows * length, generator=torch.Generator().manual_seed(0))[:positions]
    some = p.flatten(0, 1)[places], q.flatten(0, 1)[places]
    return {
        "gsd": mean_and_error(theory.gsd_acceptance(p, q)),
        "ersd": mean_and_error(theory.ersd_acceptance(p, q)),
        "kl_bits": mean_and_error(theory.kl_divergence(p, q)),
        "target_entropy_bits": mean_and_error(theory.entropy(p)),
        "positions": rows * length,
        "by_index": {n: each(*some, 8, samples=128).value.mean(0).tolist() for n, each in ESTIMATES.items()},
        "by_index_positions": positions,
    }


def mean_and_error(values: Tensor) -> dict[str, float]:
    """Mean and standard error of values [rows, positions]. Only whole rows count as independent samples."""
    means = values.mean(-1).tolist()
    return {"mean": mean(means), "standard_error": stdev(means) / len(means) ** 0.5}


def evaluate_target(work: Path, out: Path, context: int) -> dict:
    """The target's losses on training and held-out stories, and the share of its own text that is copied."""
    data = torch.load(work / "tokens.pt", weights_only=True)
    tokens, characters = data["tokens"], data["characters"]
    model = LlamaForCausalLM.from_pretrained(out / "target", dtype=torch.float32)
    held_out, trained = (story_rows(tokens[name], context) for name in ("stories_held_out", "stories"))
    parts = {"stories_held_out": held_out, "stories": trained[:: max(1, len(trained) // len(held_out))]}
    losses = {}
    for name, rows in parts.items():
        nats = mean_loss(model, rows)
        bits = nats / math.log(2) * len(tokens[name]) / characters[name]
        losses[name] = {"nats_per_token": nats, "bits_per_character": bits}
    return losses | {"copied": measure_copying(load(work / "samples-000.pt")["ids"], tokens)}


@torch.no_grad()
def mean_loss(model: LlamaForCausalLM, rows: list[Tensor]) -> float:
    """Mean loss in nats per token over rows of different lengths, computed in bfloat16."""
    model.eval()
    total, count, rows = 0.0, 0, sorted(rows, key=len)
    for start in range(0, len(rows), 16):
        ids = torch.nn.utils.rnn.pad_sequence(rows[start : start + 16], batch_first=True, padding_value=-100)
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(ids[:, :-1].clamp(min=0), use_cache=False).logits
        total += F.cross_entropy(logits.float().mT, ids[:, 1:], reduction="sum").item()
        count += int((ids[:, 1:] >= 0).sum())
    return total / count


def measure_copying(sampled_ids: Tensor, tokens: dict[str, Tensor]) -> dict[str, float]:
    """The shares of sequences of `RUN` tokens that occur in training stories: of those in sampled text (own)
    and in held-out stories (unseen). Sequences with an end token are left out."""

    def runs_in(tokens: Tensor) -> list[tuple[int, ...]]:
        ids = tokens.tolist()
        runs = (tuple(ids[start : start + RUN]) for start in range(len(ids) - RUN + 1))
        return [run for run in runs if 0 not in run]

    source = set(runs_in(tokens["stories"]))
    own = [run for row in sampled_ids for run in runs_in(row[RUN + 1 :])]
    parts = {"own": own, "unseen": runs_in(tokens["stories_held_out"])}
    return {name: sum(run in source for run in runs) / max(1, len(runs)) for name, runs in parts.items()}
