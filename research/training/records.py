"""Text that a target generates, with the most probable tokens at each position, from which a draft learns.

A record has:

    ids    [rows, length + 1]
    top    [rows, length, kept]: the ids of the target's most probable next tokens
    p      [rows, length, kept]: their probabilities at temperature 1 (float16)
    own    [rows, length + 1]: True for a token that the target sampled, False for a prompt's token

The records of SmolLM2 also have the temperature and the kind of prompt of each row.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from research.training.loop import save
from specdec import ModelPair, generate_many, learn
from specdec.probs import Sampling
from specdec.race import derived_seed

Record = dict[str, Any]


def sampled(
    pair: ModelPair,
    prefixes: Sequence[Sequence[int]],
    length: int,
    top: int,
    seed: int,
    heats: Sequence[float] | None = None,
    continuation: Callable[[int, Sequence[int]], Sequence[int]] = lambda _row, _ids: (),
) -> Record:
    """A record of rows (texts) that the target continues.

    prefixes: the tokens with which each row begins. heats: each row's temperature; None for 1. continuation:
    when a text ends, called with the row's number and tokens; returns the tokens with which it goes on.
    """
    rows, own = [list(ids) for ids in prefixes], [[False] * len(ids) for ids in prefixes]
    turn, heats = 0, heats or [1.0] * len(rows)
    while short := [number for number, row in enumerate(rows) if len(row) <= length]:
        runs = generate_many(
            pair,
            [rows[number] for number in short],
            method="ar",
            seeds=[derived_seed(derived_seed(seed, number), turn) for number in short],
            max_new_tokens=[length + 1 - len(rows[number]) for number in short],
            temperature=[heats[number] for number in short],
            at_once=64,
        )
        for number, run in zip(short, runs, strict=True):
            rows[number] += run.token_ids
            more = continuation(number, rows[number]) if len(rows[number]) <= length else ()
            rows[number] += more
            own[number] += [True] * len(run.token_ids) + [False] * len(more)
        turn += 1
    ids, own_ids = (torch.tensor([row[: length + 1] for row in each]) for each in (rows, own))
    return scored(pair, ids, top) | {"own": own_ids}


def scored(pair: ModelPair, ids: Tensor, top: int) -> Record:
    """The record of the target's scores for given texts, the rows of `ids`; no token counts as sampled."""
    size = torch.int16 if pair.vocab_size < 2**15 else torch.int32
    p, tops = zip(*(learn.scored(pair.target, row, 1, pair, Sampling()).topk(top) for row in ids.tolist()))
    record = {"ids": ids.to(size), "top": torch.stack(tops).to(size), "p": torch.stack(p).exp().half()}
    return record | {"own": torch.zeros_like(ids, dtype=torch.bool)}


def write_missing(path: Path, make: Callable[[], Record]) -> None:
    """Makes a record, writes it to a file, and prints the speed. Does nothing if the file exists."""
    if not path.exists():
        start = time.time()
        save(path, record := make())
        speed = record["ids"][:, 1:].numel() / (time.time() - start)
        print(f"{path.name}: {speed:,.0f} tokens/s", flush=True)


def load(path: Path) -> Record:
    """Loads a record from a file. Its tensors stay on the disk until they are used."""
    return torch.load(path, mmap=True, weights_only=True)
