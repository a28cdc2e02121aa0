"""Text that a target writes, with its most probable tokens at each position. A draft learns from it.

A record holds:

    ids    [rows, length + 1]
    top    [rows, length, kept]: the tokens that the target finds most probable next
    p      [rows, length, kept]: their probabilities at temperature 1 (float16)
    own    [rows, length + 1]: True for a token that the target drew, False for one that was given

The records of SmolLM2 also hold the temperature and the kind of each row.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import LlamaForCausalLM

from research.training.gap import gap_of
from research.training.loop import save
from specdec import learn
from specdec.decoding.batch import generate_many
from specdec.pair import ModelPair
from specdec.probs import Sampling
from specdec.race import derived_seed

AT_ONCE = 64
"""Rows that are written together."""
CHUNK = 256
"""Positions whose logits are turned into a gradient at once: they stay in the processor's cache."""

Record = dict[str, Any]
Place = Tensor
"""[vocabulary]: the index of each id in the draft's output; -1 for ids that the draft does not score."""


def sampled(
    pair: ModelPair,
    given: Sequence[Sequence[int]],
    length: int,
    top: int,
    seed: int,
    heats: Sequence[float] | None = None,
    after: Callable[[int, Sequence[int]], Sequence[int]] = lambda _row, _ids: (),
) -> Record:
    """A record of rows that the target continues.

    given: the tokens with which each row begins. heats: the temperature of each row, 1 by default. after:
    returns the tokens that follow the end of a text, from the row's number and its tokens so far.
    """
    rows, own = [list(ids) for ids in given], [[False] * len(ids) for ids in given]
    turn, heats = 0, heats or [1.0] * len(rows)
    while unfinished := [number for number, row in enumerate(rows) if len(row) <= length]:
        runs = generate_many(
            pair,
            [rows[number] for number in unfinished],
            method="ar",
            seeds=[derived_seed(derived_seed(seed, number), turn) for number in unfinished],
            max_new_tokens=[length + 1 - len(rows[number]) for number in unfinished],
            temperature=[heats[number] for number in unfinished],
            at_once=AT_ONCE,
        )
        for number, run in zip(unfinished, runs, strict=True):
            rows[number] += run.token_ids
            more = after(number, rows[number]) if len(rows[number]) <= length else ()
            rows[number] += more
            own[number] += [True] * len(run.token_ids) + [False] * len(more)
        turn += 1
    ids, own_ids = (torch.tensor([row[: length + 1] for row in each]) for each in (rows, own))
    return scored(pair, ids, top) | {"own": own_ids}


def scored(pair: ModelPair, ids: Tensor, top: int) -> Record:
    """A record of rows of given text."""
    size = torch.int16 if pair.vocab_size < 2**15 else torch.int32
    p, tops = zip(*(learn.scored(pair.target, row, 1, pair, Sampling()).topk(top) for row in ids.tolist()))
    own = torch.zeros_like(ids, dtype=torch.bool)
    return {
        "ids": ids.to(size),
        "top": torch.stack(tops).to(size),
        "p": torch.stack(p).exp().half(),
        "own": own,
    }


def write_missing(path: Path, make: Callable[[], Record]) -> None:
    """Writes a record and prints the speed of making it. A file that exists stays as it is."""
    if path.exists():
        return
    started = time.time()
    record = make()
    save(path, record)
    speed = record["ids"][:, 1:].numel() / (time.time() - started)
    print(f"{path.name}: {speed:,.0f} tokens/s", flush=True)


def load(path: Path) -> Record:
    """The record in a file. Its tensors stay on the disk until they are used."""
    return torch.load(path, mmap=True, weights_only=True)


# ---------------------------------------------------------------- learning from records


def add_gradients(
    model: LlamaForCausalLM,
    place: Place,
    record: Record,
    rows: Tensor,
    late: float,
    weight: Tensor,
    heat: float = 1.0,
) -> float:
    """Adds the gradients of the draft's loss on some rows. Returns the loss.

    late: from 0, where the loss is the KL divergence, to 1, where it is 0.2 times the KL divergence plus both
    rejection probabilities. weight: [positions], with the sum 1. heat: the temperature of both models.
    """
    logits = draft_logits(model, record, rows)  # [positions, scored]
    gradient, total = torch.empty_like(logits), 0.0
    for part, p, at in _parts(record, rows, place, heat):
        scaled = logits[part].detach().float().div_(heat).requires_grad_()
        q = scaled.softmax(-1).gather(-1, at.clamp(min=0))
        gap = gap_of(p, q, at >= 0, with_race=late > 0)
        loss = ((1 - 0.8 * late) * gap.kl + late * (gap.tv + gap.race)) @ weight[part]
        (slope,) = torch.autograd.grad(loss, scaled)
        gradient[part] = slope.div_(heat)
        total += loss.item()
    logits.backward(gradient)
    return total


@torch.no_grad()
def measured(model: LlamaForCausalLM, place: Place, record: Record, heat: float = 1.0) -> Tensor:
    """[3, positions]: KL divergence in nats, and the first child's acceptance under GSD and ERSD."""
    gaps = []
    for rows in torch.arange(len(record["ids"])).split(8):
        logits = draft_logits(model, record, rows)
        for part, p, at in _parts(record, rows, place, heat):
            q = (logits[part].float() / heat).softmax(-1).gather(-1, at.clamp(min=0))
            gap = gap_of(p, q, at >= 0)
            gaps.append(torch.stack([gap.kl, 1 - gap.tv, 1 - gap.race]))
    return torch.cat(gaps, -1)


def draft_logits(model: LlamaForCausalLM, record: Record, rows: Tensor) -> Tensor:
    """The draft's logits [positions, scored] along these rows, bfloat16."""
    with torch.autocast("cpu", torch.bfloat16):
        return model(record["ids"][rows][:, :-1].long(), use_cache=False).logits.flatten(0, 1)


def _parts(record: Record, rows: Tensor, place: Place, heat: float) -> Iterator[tuple[slice, Tensor, Tensor]]:
    """Slices of n positions, p [n, kept] at this temperature, and the tokens' indices in the output."""
    p, at = record["p"][rows].flatten(0, 1), place[record["top"][rows].long()].flatten(0, 1)
    for start in range(0, len(p), CHUNK):
        part = slice(start, min(start + CHUNK, len(p)))
        yield part, tempered(p[part].float(), heat), at[part]


def tempered(p: Tensor, heat: float) -> Tensor:
    """p [..., kept] at a temperature. The other tokens are treated as equally likely as the last one in p."""
    if heat == 1:
        return p
    last = p[..., -1:].clamp(min=1e-7)
    others = (1 - p.sum(-1, keepdim=True)).clamp(min=0) / last
    raised = p.pow(1 / heat)
    return raised / (raised.sum(-1, keepdim=True) + others * last.pow(1 / heat))
