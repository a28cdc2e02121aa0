"""Encode a word with a Tunstall code, and compare the rates of such codes with the entropy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import plotly.graph_objects as go
from pydantic import Field

from components.codecs.catalogue import Weight, shares
from components.page.plots import table, view
from components.page.questions import Answer, Question, answers
from specdec import channel
from specdec.figures.looks import BOUND, INK, axes, line

View = dict[str, Any]
MOST_SYMBOLS, MOST_K, MOST_LETTERS = 8, 64, 400
"""The largest values of a `Word`: its number of weights, its k, and the length of its word."""


class Word(Question):
    """A question: the weights of the source's letters a, b, ..., the number k of inner nodes of the code's
    tree, not counting the root, and the word to encode."""

    weights: Annotated[list[Weight], Field(min_length=2, max_length=MOST_SYMBOLS)]
    k: Annotated[int, Field(ge=0, le=MOST_K)]
    word: Annotated[str, Field(min_length=1, max_length=MOST_LETTERS)]


@answers
def tunstall(question: Word) -> Answer:
    """Encode a word with a Tunstall code whose tree has k inner nodes besides the root.

    The answer has the word's phrases and codewords, the codebook, and the rates of the codes of all k.
    """
    rates, k = shares("the source", question.weights), question.k
    symbols = _symbols(question.word, len(rates))
    codes = {n: channel.TunstallCode(rates, n) for n in range(MOST_K + 1)}
    code = codes[k]
    bits = code.encode(symbols)
    decoded = code.decode(bits)
    assert decoded == symbols
    header = 2 * bits.index("1") + 1
    words = [bits[i : i + code.codeword_bits] for i in range(header, len(bits), code.codeword_bits)]
    return {
        "header": bits[:header],
        "phrases": [[_letters(code.decode("1" + word)), word] for word in words],
        "decoded": _letters(decoded),
        "sentence": _about_word(len(symbols), len(bits), words, code),
        "plot": _rate_plot(codes, k),
        "codebook": _codebook(code),
    }


def _symbols(word: str, count: int) -> list[int]:
    for letter in word:
        if not 0 <= ord(letter) - ord("a") < count:
            raise ValueError(f"the word has {letter!r}; this source has the letters {_letters(range(count))}")
    return [ord(letter) - ord("a") for letter in word]


def _letters(symbols: Sequence[int]) -> str:
    return "".join(chr(ord("a") + symbol) for symbol in symbols)


def _about_word(letters: int, bits: int, words: Sequence[str], code: channel.TunstallCode) -> str:
    return (
        f"{letters} letters became {len(words)} codewords of {code.codeword_bits} bits, {bits} bits with the "
        f"header: {bits / letters:.2f} bits per letter. A long text takes {code.rate:.3f} bits per letter; "
        f"the entropy is {code.entropy:.3f}. A phrase of the dictionary has {code.expected_phrase:.2f} "
        f"letters on average. A round of speculative decoding yields as many tokens, if it has this tree and "
        f"these weights are R."
    )


def _rate_plot(codes: Mapping[int, channel.TunstallCode], k: int) -> View:
    code, rates = codes[k], [each.rate for each in codes.values()]
    figure = axes("inner nodes k, without the root", "bits per symbol", 320)
    figure.add_trace(line("rate", INK, "solid", list(codes), rates))
    figure.add_trace(line("entropy", BOUND, "dash", [0, MOST_K], [code.entropy, code.entropy]))
    marker = go.Scatter(name="this code", legendgroup="this code", x=[k], y=[code.rate])
    figure.add_trace(marker.update(mode="markers", marker={"symbol": "star", "size": 13, "color": INK}))
    columns = ["k", "codewords", "bits per codeword", "letters per phrase", "bits per letter"]
    rows = [
        [*map(str, (n, c.num_codewords, c.codeword_bits)), f"{c.expected_phrase:.3f}", f"{c.rate:.3f}"]
        for n, c in codes.items()
    ]
    return view(
        "Rate beside entropy",
        "Paper: Appendix C; the tree is Algorithm 3's optimal draft tree",
        f"With k = {k}: {code.num_codewords} codewords, {code.rate:.3f} bits per letter, "
        f"{100 * (code.rate / code.entropy - 1):.1f}% above the entropy of {code.entropy:.3f}."
        if code.entropy
        else "A source that always sends the same letter has an entropy of 0.",
        "The rate jumps where an additional codeword makes all codewords one bit longer.",
        figure,
        table("Codes by k", columns, rows),
    )


def _codebook(code: channel.TunstallCode) -> View:
    words = [f"{number:0{code.codeword_bits}b}" for number in range(min(code.num_codewords, 256))]
    caption = f"Codebook, {len(words)} of {code.num_codewords} codewords"
    return table(
        caption, ["phrase", "codeword"], [[_letters(code.decode("1" + word)), word] for word in words]
    )
