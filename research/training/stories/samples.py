"""Text from which the draft learns, real and written by the target, with the target's probabilities.

A record holds ids [rows, length + 1], and top and p [rows, length, kept]: the tokens that the target finds
most probable next, and their probabilities (float16).
"""

import time
from pathlib import Path

import torch
from torch import Tensor
from transformers import Cache, LlamaForCausalLM

from research.training.files import save
from research.training.llama import GrowingLayer, next_logits
from research.training.stories.recipe import Recipe
from research.training.stories.texts import draw_rows, next_end

KINDS = ("own", "own", "stories", "own", "own, long", "own", "stories", "own")
"""What the chunks of samples hold, in turn."""
SHORT = 288
"""Tokens of a short row: most stories are shorter."""


def make_samples(rank: int, world: int, work: Path, recipe: Recipe, chunks: int) -> None:
    """Stage 3, in each process: writes samples-RANK-CHUNK.pt. Chunks that exist are not written again."""
    tokens = torch.load(work / "tokens.pt", weights_only=True)["tokens"]
    model = LlamaForCausalLM.from_pretrained(work / "target", dtype=torch.bfloat16).eval()
    started, made = time.time(), 0
    for chunk in range(chunks):
        path, kind = work / f"samples-{rank}-{chunk}.pt", KINDS[chunk % len(KINDS)]
        if path.exists():
            continue
        generator = torch.Generator().manual_seed((recipe.seed * 1000 + chunk) * 64 + rank)
        record = make_record(model, tokens, kind, recipe, generator)
        save(path, record)
        made += record["top"][..., 0].numel()
        if rank == 0:
            speed = world * made / (time.time() - started)
            print(f"samples: chunk {chunk + 1} of {chunks} ({kind}), {speed:,.0f} tokens/s", flush=True)


def make_record(
    model: LlamaForCausalLM, tokens: dict[str, Tensor], kind: str, recipe: Recipe, generator: torch.Generator
) -> dict[str, Tensor]:
    """One record of this kind."""
    length = min(SHORT, recipe.context) if kind == "own" else recipe.context
    rows = max(2, recipe.chunk_tokens // length)
    if kind.startswith("own"):
        return sample_rows(model, openings(tokens["stories"], rows, generator), length, recipe.top, generator)
    ids = draw_rows(tokens["stories"], length, rows, generator)
    return score_rows(model, ids, recipe.top)


def openings(text: Tensor, rows: int, generator: torch.Generator) -> list[list[int]]:
    """The beginnings of sampled rows: an end token, and in every second row up to 24 tokens of a story."""
    begun = []
    for row in range(rows):
        at = next_end(text, int(torch.randint(len(text) - 24, (1,), generator=generator)))
        length = int(torch.randint(1, 25, (1,), generator=generator)) if row % 2 else 0
        begun.append([0, *text[at + 1 : at + 1 + length].tolist()])
    return begun


@torch.inference_mode()
def sample_rows(
    model: LlamaForCausalLM, openings: list[list[int]], length: int, top: int, generator: torch.Generator
) -> dict[str, Tensor]:
    """A record of rows that the model continues at temperature 1."""
    model.set_attn_implementation("specdec_last")
    rows, cache = len(openings), Cache(layers=[GrowingLayer() for _ in model.model.layers])
    given = torch.full((rows, length + 1), -1)
    for row, opening in enumerate(openings):
        given[row, : len(opening)] = torch.tensor(opening[: length + 1])
    ids = given.clone()
    tops = torch.empty(rows, length, top, dtype=torch.int16)
    ps = torch.empty(rows, length, top, dtype=torch.float16)
    for at in range(length):
        p = next_logits(model, ids[:, at : at + 1], at, cache).softmax(-1)
        drawn = torch.multinomial(p, 1, generator=generator)[:, 0]
        ids[:, at + 1] = torch.where(given[:, at + 1] < 0, drawn, given[:, at + 1])
        ps[:, at], tops[:, at] = (x.to(buffer.dtype) for x, buffer in zip(p.topk(top), (ps, tops)))
    return {"ids": ids.short(), "top": tops, "p": ps}


@torch.inference_mode()
def score_rows(model: LlamaForCausalLM, ids: Tensor, top: int) -> dict[str, Tensor]:
    """A record of rows of real text."""
    model.set_attn_implementation("specdec_plain")
    logits = (model(part[:, :-1], use_cache=False).logits for part in ids.split(8))
    p, tops = zip(*(part.float().softmax(-1).topk(top) for part in logits))
    return {"ids": ids.short(), "top": torch.cat(tops).short(), "p": torch.cat(p).half()}
