"""Text that a chat model writes to prompts of many kinds, with its most probable tokens at each position.

A record holds:

    ids           [rows, length + 1]
    top           [rows, length, kept]: the tokens that the model finds most probable next
    p             [rows, length, kept]: their probabilities at temperature 1 (float16)
    own           [rows, length + 1]: whether the model drew the token; else the prompt gave it
    temperature   [rows]
    kind          a name for each row
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import Cache, LlamaForCausalLM

from research.training.llama import GrowingLayer, next_logits
from research.training.prompts import KINDS, Prompts

USER = 4093
"""SmolLM2's token "user"."""
TEMPERATURES = (0.6, 0.7, 0.7, 0.7, 0.8, 0.8, 0.9, 1.0)


@torch.inference_mode()
def chat_record(
    model: LlamaForCausalLM,
    tokenizer: Any,
    stories: Sequence[str],
    *,
    rows: int,
    length: int,
    top: int,
    seed: int,
    held_out: bool = False,
    temperature: float | None = None,
) -> dict[str, Any]:
    """Samples one record. temperature: the same for all rows; None draws one for each row."""
    model.set_attn_implementation("specdec_last")
    generator = torch.Generator().manual_seed(seed)
    prompts = Prompts(stories, seed, held_out)
    kinds = [KINDS[row % len(KINDS)] for row in range(rows)]
    drawn = torch.randint(len(TEMPERATURES), (rows,), generator=generator)
    heat = torch.tensor(TEMPERATURES)[drawn] if temperature is None else torch.full((rows,), temperature)

    def encoded(text: str) -> list[int]:
        return list(tokenizer(text, add_special_tokens=False)["input_ids"])

    given = [deque(encoded(prompts.first(kind))) for kind in kinds]
    ids = torch.zeros(rows, length + 1, dtype=torch.long)
    own = torch.zeros(rows, length + 1, dtype=torch.bool)
    tops = torch.empty(rows, length, top, dtype=torch.int32)
    ps = torch.empty(rows, length, top, dtype=torch.float16)
    ids[:, 0] = torch.tensor([queue.popleft() for queue in given])
    cache = Cache(layers=[GrowingLayer() for _ in model.model.layers])
    for at in range(length):
        logits = next_logits(model, ids[:, at : at + 1], at, cache)
        p, likeliest = torch.softmax(logits, -1).topk(top)
        tops[:, at], ps[:, at] = likeliest, p
        new = draw(logits, likeliest, heat, generator)
        for row, queue in enumerate(given):
            if queue:
                new[row] = queue.popleft()
                continue
            own[row, at + 1] = True
            if int(new[row]) in (0, 2):
                # the end of an answer, or of a user's turn that the model wrote itself
                asked = kinds[row] == "free" and user_turn(ids[row, : at + 1])
                queue.extend(encoded("\n<|im_start|>assistant\n" if asked else prompts.next(kinds[row])))
        ids[:, at + 1] = new
    return {"ids": ids.int(), "top": tops, "p": ps, "own": own, "temperature": heat, "kind": kinds}


def user_turn(ids: Tensor) -> bool:
    """Whether the last turn is the user's: whether a user token follows the last <|im_start|> (id 1)."""
    starts = (ids == 1).nonzero()
    return bool(len(starts)) and int(ids[min(int(starts[-1]) + 1, len(ids) - 1)]) == USER


def draw(logits: Tensor, top: Tensor, heat: Tensor, generator: torch.Generator) -> Tensor:
    """Draws one token per row at temperatures heat [rows].

    A draw outside `top` is drawn from all other tokens.
    """
    scaled = logits / heat[:, None]
    log_total = scaled.logsumexp(-1, keepdim=True)
    sums = (scaled.gather(-1, top) - log_total).exp().cumsum(-1)
    chance = torch.rand(len(logits), 1, generator=generator)
    places = (sums < chance).sum(-1)
    drawn = top.gather(-1, places.clamp(max=top.shape[-1] - 1)[:, None])[:, 0]
    for row in (places == top.shape[-1]).nonzero().flatten().tolist():
        others = scaled[row].index_fill(0, top[row], -torch.inf)
        drawn[row] = torch.multinomial(torch.softmax(others, -1), 1, generator=generator)[0]
    return drawn
