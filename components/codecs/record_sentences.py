"""Record the sentences of the codec laboratory: `python -m components.codecs.record_sentences` takes half a
minute.

Alice and Bob write each sentence together, through a codec. At every position Alice has P, the target's
distribution of its `TOP_K` likeliest tokens, and Bob has Q, the draft's distribution of the same tokens. One
more entry stands for all other tokens; under P its probability is 0, so Alice never sends it. The text
continues with the token that the codec sends.
"""

from __future__ import annotations

import json
from typing import Any

import torch

import specdec
from components.page.assets import ASSETS
from specdec import channel
from specdec.probs import Sampling

RECORDED = ASSETS / "results" / "codec.json"
SEED = 7
MOST_TOKENS = 32
TOP_K = 12
OTHER = "other tokens"
PROMPTS = (
    "Once upon a time, there was a little girl named Lily.",
    "Tom had a red ball. One day",
    "A bird found a shiny key.",
)


def main() -> None:
    """Record all sentences and write them to the file `RECORDED`."""
    torch.set_num_threads(1)
    pair = specdec.load_pair("stories")
    sentences = [sentence(pair, prompt, method) for method in channel.METHODS for prompt in PROMPTS]
    head = {
        "seed": SEED,
        "top_k": TOP_K,
        "other": OTHER,
        "target": "stories/target",
        "draft": "stories/draft",
    }
    RECORDED.write_text(
        json.dumps(head | {"sentences": sentences}, separators=(",", ":")) + "\n", encoding="utf-8"
    )
    print(f"written: {RECORDED}, {RECORDED.stat().st_size:,} bytes")


def sentence(pair: specdec.ModelPair, prompt: str, method: channel.Method) -> dict[str, Any]:
    """Record one sentence. For each position, `sent` has the number of the entry that the codec sends, and
    `positions` has the texts, p and q of all entries, and the entropies of the index in bits."""
    ids, positions = pair.encode(prompt), []
    token_ids: list[int] = []
    while len(token_ids) < MOST_TOKENS:
        tokens, p, q = target_and_draft(pair, ids)
        message = channel.ENCODERS[method](p, q, SEED, len(token_ids))
        texts = [pair.token_texts[token] for token in tokens] + [OTHER]
        indices = channel.index_distributions(p, q, method)
        positions.append(
            {
                "texts": texts,
                "p": p,
                "q": q,
                "entropy_with": round(indices.entropy_with, 4),
                "entropy_without": round(indices.entropy_without, 4),
            }
        )
        ids.append(tokens[message.token_id])
        token_ids.append(message.token_id)
        if ids[-1] in pair.eos_ids:
            break
    return {"method": method, "prompt": prompt, "sent": token_ids, "positions": positions}


def target_and_draft(pair: specdec.ModelPair, ids: list[int]) -> tuple[list[int], list[float], list[float]]:
    """The likeliest tokens under P in decreasing order, and their p and q, each with one more entry for all
    other tokens."""
    from specdec.learn import scored  # late: the page imports this file and must not wait for transformers

    text = [*ids, 0]  # the 0 holds the place of the next token
    p, q = (
        scored(model, text, len(ids), pair, Sampling())[0].double().exp()
        for model in (pair.target, pair.drafting)
    )
    tokens = p.topk(TOP_K).indices.tolist()
    target = [float(f"{x:.5g}") for x in (p[tokens] / p[tokens].sum()).tolist()]
    drafted = [float(f"{x:.5g}") for x in q[tokens].tolist()]
    return tokens, summing_to_one([*target, 0.0]), summing_to_one([*drafted, max(0.0, 1 - sum(drafted))])


def summing_to_one(probabilities: list[float]) -> list[float]:
    """The distribution rounded to five digits. Its largest entry takes the rounding error."""
    rounded = [float(f"{x:.5g}") for x in probabilities]
    largest = max(range(len(probabilities)), key=rounded.__getitem__)
    others_sum = sum(x for i, x in enumerate(rounded) if i != largest)
    rounded[largest] = round(1 - others_sum, 9)
    return rounded


if __name__ == "__main__":
    main()
