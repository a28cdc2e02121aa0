"""Sends a recorded sentence from Alice to Bob, token by token, and counts the bits."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import accumulate
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from components.codecs.catalogue import BOUNDS, RELATIVES
from components.codecs.record_sentences import RECORDED
from components.page.plots import table, view
from components.page.questions import Answer, Question, answers
from specdec import channel, theory
from specdec.figures.looks import BOUND, INK, axes, line

View = dict[str, Any]
_SHOWN = 12
"""The largest number of proposals that are shown for one token."""


@cache
def recorded() -> dict[str, Any]:
    """The recorded sentences."""
    return json.loads(RECORDED.read_bytes())


class Sentence(Question):
    """A question: send the recorded sentence with this number. seed: the seed of the shared randomness; None
    takes the recorded one."""

    sentence: Annotated[int, Field(ge=0)]
    seed: Annotated[int, Field(ge=0, le=2**53)] | None = None


@answers
def sent(question: Sentence) -> Answer:
    """Send one recorded sentence through its codec, token by token."""
    sentences = recorded()["sentences"]
    if question.sentence >= len(sentences):
        raise ValueError(f"sentence = {question.sentence} does not exist; the last is {len(sentences) - 1}")
    sentence = sentences[question.sentence]
    seed = recorded()["seed"] if question.seed is None else question.seed
    method, positions = sentence["method"], sentence["positions"]
    kls = [float(theory.kl_divergence(row["p"], row["q"])) for row in positions]
    zipf = channel.zipf_distribution(sum(kls) / len(kls))
    tokens = [_token(row, seed, n, kls[n], zipf, method) for n, row in enumerate(positions)]
    for token, original in zip(tokens, sentence["sent"], strict=True):
        token["recorded"] = token["id"] == original
    return {
        "method": method,
        "prompt": sentence["prompt"],
        "seed": seed,
        "tokens": tokens,
        "totals": _totals(tokens, zipf, method),
        "plot": _bits_plot(tokens, method),
    }


def _token(
    row: Mapping[str, Any], seed: int, n: int, kl: float, zipf: np.ndarray, method: channel.Method
) -> View:
    """Send token number n: Alice's index, the bits of its code, and the token that Bob decodes from this
    index, q and the seed. row: the record of the position. zipf: the distribution behind the ideal length."""
    message = channel.ENCODERS[method](row["p"], row["q"], seed, n)  # Alice's side: she knows p
    decode, index = channel.DECODERS[method], message.index
    token_id = decode(index, row["q"], seed, n)
    assert token_id == message.token_id, "Bob decodes Alice's token"
    return {
        "id": token_id,
        "text": row["texts"][token_id],
        "index": index,
        "bits": channel.encode_elias_gamma([index]),
        "ideal": -math.log2(zipf[index]) if index < len(zipf) else 32 - math.log2(1 - zipf.sum()),
        "kl": kl,
        "entropy_with": row["entropy_with"],
        "entropy_without": row["entropy_without"],
        "proposals": [row["texts"][decode(i, row["q"], seed, n)] for i in range(min(index, _SHOWN) + 1)],
        "texts": row["texts"],
        "p": row["p"],
        "q": row["q"],
    }


def _totals(tokens: Sequence[View], zipf: np.ndarray, method: str) -> list[list[str]]:
    """The rows of the table of totals: a name, the bits of the whole sentence, and the bits per token."""
    bound, constant, source = BOUNDS[method]
    indices = [token["index"] for token in tokens]
    coded = channel.encode_indices(indices, zipf)
    assert channel.decode_indices(coded, len(indices), zipf) == indices
    rows = [
        (
            "D_KL[P‖Q], the least that a code needs on average if proposals are independent",
            [token["kl"] for token in tokens],
        ),
        ("H[index], if proposals are drawn with replacement", [token["entropy_with"] for token in tokens]),
        (
            f"upper bound of this entropy: D_KL + log₂(D_KL + 1) + {constant:.3g} ({source})",
            [bound(token["kl"]) for token in tokens],
        ),
        (
            f"H[R], the entropy of {RELATIVES[method]}'s child index R, if proposals are drawn without "
            "replacement" + ("; R is the index sent here" if method == "poisson_functional" else ""),
            [token["entropy_without"] for token in tokens],
        ),
        ("ideal length by Zipf's law", [token["ideal"] for token in tokens]),
        ("sent token by token, Elias γ", [len(token["bits"]) for token in tokens]),
        (
            "sent as one message by a range coder with Zipf's law, in words of 32 bits",
            [8 * len(coded)],
        ),
    ]
    return [[name, f"{sum(bits):.1f}", f"{sum(bits) / len(tokens):.2f}"] for name, bits in rows]


_AT_LEAST = {
    "greedy_rejection": "A single sentence may take less than D_KL, but the mean over many sentences can't.",
    "poisson_functional": "Repeated proposals are not counted, so even the mean number of bits over many "
    "sentences may be less than D_KL.",
}


def _bits_plot(tokens: Sequence[View], method: str) -> View:
    bound = BOUNDS[method][0]
    curves = [
        [len(token["bits"]) for token in tokens],
        [token["ideal"] for token in tokens],
        [token["kl"] for token in tokens],
        [bound(token["kl"]) for token in tokens],
    ]
    sums = [list(accumulate(curve)) for curve in curves]
    sentence = (
        f"{len(tokens)} tokens took {sums[0][-1]} whole bits; D_KL adds up to {sums[2][-1]:.1f} bits, "
        f"and the upper bound of the indices' entropy to {sums[3][-1]:.1f}."
    )
    count = list(range(1, len(tokens) + 1))
    figure = axes("tokens sent", "bits so far").add_traces(
        [
            line("upper bound of H[index]", BOUND, "dash", count, sums[3]),
            line("sent, Elias γ", INK, "solid", count, sums[0]),
            line("ideal, Zipf's law", INK, "dot", count, sums[1]),
            line("D_KL[P‖Q]", BOUND, "dashdot", count, sums[2]),
        ]
    )
    columns = ["tokens", "sent, Elias γ", "ideal, Zipf", "D_KL", "bound"]
    rows = [
        [str(n), str(a), *(f"{value:.2f}" for value in columns)]
        for n, a, *columns in zip(count, *sums, strict=True)
    ]
    return view(
        "Bits so far",
        "Paper: Section 4, Equations 6 to 8",
        sentence,
        _AT_LEAST[method],
        figure,
        table("Bits so far", columns, rows),
    )
