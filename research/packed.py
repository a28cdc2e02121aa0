"""Measures how far computing in a GGUF file's own bits is from its exact weights, and times forward passes.

    python -m research.packed model.gguf
    python -m research.packed model.gguf --server http://127.0.0.1:8081

The model answers prompts, computing in the file's bits. At each token of the answers, its distribution is
compared with that of the same weights in float32. With `--server`, a llama-server with the same file is
compared too. A time is the shortest of several forward passes; all numbers of rows (tokens) take turns.
"""

import json
import time
from argparse import ArgumentDefaultsHelpFormatter

import torch
from torch import Tensor

import specdec
from research.timing import forward_seconds
from specdec import ModelPair
from specdec.commands import Parser, spread, to_write, without_traceback, write_json
from specdec.devices import machine
from specdec.exactness.audit.openai import posted
from specdec.models.packed import PackedModel
from specdec.models.packed_check import exact_logits
from specdec.theory import total_variation

PROMPTS = (
    "Write a Python function that checks whether a string is a palindrome.",
    "Explain the difference between a list and a tuple in Python, and when each should be used.",
    "Write a SQL query that lists the ten customers with the largest total of orders in the last year.",
    "Translate these comments to English:\n# berechnet die Summe\ndef summe(werte):\n    return sum(werte)\n",
    "What should I cook tonight with eggs, rice and spinach?",
)
ROWS = (1, 2, 5, 9, 12, 17)
LISTED = 1000  # a server's most probable tokens that are compared; all others count as one token
SECONDS = 600  # the longest time that a server may take for an answer
BEFORE, TIMES = 40, 8  # prefix tokens before the timed rows; number of passes timed for each number of rows


def main() -> None:
    """Prints the distances between the distributions, and the times of forward passes."""
    parser = Parser("python -m research.packed", description=__doc__)
    parser.formatter_class = ArgumentDefaultsHelpFormatter
    add = parser.add_argument
    add("file", help="a GGUF file with matrices of four to eight bits")
    add("--tokens", type=int, default=100, help="number of tokens of each answer")
    add("--dtype", default="packed", help="how matrices are stored; int4 and int8 round them")
    add("--server", help="address of a llama-server with the same file")
    add("--json", type=to_write, metavar="FILE", help="write the figures to this file")
    options = parser.parse_args()
    pair = specdec.load_pair(options.file, device="cpu", dtype=options.dtype)
    rows = {count: [-1] * count for count in ROWS}
    seconds = forward_seconds(pair.target, range(BEFORE), rows, TIMES, time.perf_counter)
    answers = [answer_variations(pair, prompt, options.tokens, options.server) for prompt in PROMPTS]
    result = {
        "machine": machine(pair.target.device),
        "model": pair.target.name,
        "arithmetic": pair.arithmetic,
        "milliseconds by rows": {count: round(1e3 * each, 3) for count, each in seconds.items()},
        "total variation": {
            name: {"tokens": len(each), "mean": float(each.mean()), "largest": float(each.max())}
            for name, each in zip(("ours", "llama-server"), map(torch.cat, zip(*answers)), strict=False)
        },
    }
    print(spread(result))
    if options.json:
        write_json(options.json, result)


def answer_variations(
    pair: ModelPair, prompt: str, count: int, server: str | None = None
) -> tuple[Tensor, ...]:
    """Total variation between exact and computed distributions at each token of an answer, [tokens].

    Answers are sampled at temperature 0.7, and distributions compared at temperature 1. The first tensor is
    for our computation; with `server`, a llama-server's address, a second tensor is for the server's.
    """
    model = pair.target
    assert isinstance(model, PackedModel)
    ids = pair.chat_prompt(prompt) if pair.chats else pair.encode(prompt)
    answer = specdec.generate(pair, ids, method="ar", seed=0, temperature=0.7, max_new_tokens=count)
    text, first = [*ids, *answer.token_ids], len(ids) - 1
    session = model.session()
    session.prefill(text[:first])
    have = session.forward(torch.tensor(text[first:]), range(-1, len(text) - first - 1))
    want = exact_logits(model.config, model.matrices, text)[first:].softmax(-1)
    ours = total_variation(have.softmax(-1), want)
    if server is None:
        return (ours,)
    theirs = [_server_variation(server, text[: first + place + 1], row) for place, row in enumerate(want)]
    return ours, torch.tensor(theirs)


def _server_variation(server: str, ids: list[int], want: Tensor) -> float:
    """Total variation between a llama-server's distribution of the token after `ids` and the exact one.

    want: the exact distribution, [vocab_size]. The server's `LISTED` most probable tokens are compared one by
    one; all others count as one token.
    """
    request = {"prompt": ids, "n_predict": 1, "n_probs": LISTED, "cache_prompt": True}
    (token,) = json.loads(posted(f"{server}/completion", request, SECONDS))["completion_probabilities"]
    entries = token["top_logprobs"]
    have = torch.tensor([each["logprob"] for each in entries], dtype=torch.float64).exp()
    ours = want.double()[[each["id"] for each in entries]]
    return float((have - ours).abs().sum() + (have.sum() - ours.sum()).abs()) / 2


if __name__ == "__main__":
    with without_traceback():
        main()
