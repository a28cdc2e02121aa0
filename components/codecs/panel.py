"""Channel simulation and Tunstall codes on the page: a sentence from Alice to Bob, its bits counted.

The sentences are recorded (`record`), so no model is needed. The panel asks the server for
`sent`, `laws` and `tunstall`: plain data, computed by `specdec.channel`, which `assets/codecs/panel.js`
draws.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import accumulate
from typing import Annotated, Any

import gradio as gr
import numpy as np
from pydantic import Field

from components.codecs import figures
from components.codecs.record import RECORDED
from components.page import assets, frame, paper
from components.page.questions import Answer, Question, answers
from specdec import channel, theory
from specdec.figures.looks import skeleton

MOST_TOKENS, MOST_SYMBOLS, MOST_K, MOST_LETTERS = 40, 8, 64, 400
"""Limits: of an own P and Q, of a Tunstall source, its k and its word."""
_SHOWN = 12
"""Indices of a law, and proposals of a message, that are shown."""

NAMES = {"greedy_rejection": "greedy rejection", "poisson_functional": "Poisson functional"}
RELATIVES = {"greedy_rejection": "GSD", "poisson_functional": "ERSD"}
BOUNDS: dict[str, tuple[Callable[[float], float], float, str]] = {
    "greedy_rejection": (
        theory.greedy_rejection_entropy_bound,
        theory.GREEDY_REJECTION_CONSTANT,
        "Equation 7, whose O(1) is taken as 1 + log₂(e + 1) from Goc and Flamich, 2024",
    ),
    "poisson_functional": (
        theory.pfr_entropy_bound,
        theory.PFR_CONSTANT,
        "Equation 8, with the constant of Li and El Gamal, 2018",
    ),
}

PRESETS = [
    ["The cat sat on the …", ["floor", "mat", "chair", "table", "sofa"],
     [0.25, 0.4, 0.1, 0.1, 0.15], [0.3, 0.25, 0.15, 0.2, 0.1]],
    ["far apart: D_KL 6.5 bits", ["a", "b"], [0.01, 0.99], [0.99, 0.01]],
    ["equal", ["a", "b", "c", "d"], [0.4, 0.3, 0.2, 0.1], [0.4, 0.3, 0.2, 0.1]],
    ["one of eight", list("abcdefgh"), [1, 0, 0, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1, 1, 1]],
]  # fmt: skip
"""Name, tokens, P, Q; the words of the first are those of the paper's Figure 2, the numbers are ours."""

View = dict[str, Any]

_Weight = Annotated[float, Field(ge=0, lt=1e9)]
_Weights = Annotated[list[_Weight], Field(min_length=2, max_length=MOST_TOKENS)]


@cache
def recorded() -> dict[str, Any]:
    """The recorded sentences."""
    return json.loads(RECORDED.read_text())


# ---------------------------------------------------------------- a sentence


class Sentence(Question):
    """A recorded sentence by its number; seed: None is the recorded one."""

    sentence: Annotated[int, Field(ge=0)]
    seed: Annotated[int, Field(ge=0, le=2**53)] | None = None


@answers
def sent(asked: Sentence) -> Answer:
    """One recorded sentence through its codec, token by token."""
    sentences = recorded()["sentences"]
    if asked.sentence >= len(sentences):
        raise ValueError(f"sentence = {asked.sentence} is not there; the last one is {len(sentences) - 1}")
    sentence = sentences[asked.sentence]
    seed = recorded()["seed"] if asked.seed is None else asked.seed
    method, positions = sentence["method"], sentence["positions"]
    messages = [
        channel.ENCODERS[method](at["p"], at["q"], seed, n) for n, at in enumerate(positions)
    ]  # Alice, who knows p
    kls = [float(theory.kl_divergence(at["p"], at["q"])) for at in positions]
    law = channel.zipf_law(sum(kls) / len(kls))
    tokens = [_token(at, seed, n, messages[n], kls[n], law, method) for n, at in enumerate(positions)]
    for token, original in zip(tokens, sentence["sent"], strict=True):
        token["recorded"] = token["id"] == original
    return {
        "method": method,
        "prompt": sentence["prompt"],
        "seed": seed,
        "tokens": tokens,
        "totals": _totals(tokens, [message.index for message in messages], law, method),
        "plot": _bits_plot(tokens, method),
    }


def _token(
    at: Mapping[str, Any],
    seed: int,
    n: int,
    message: channel.Message,
    kl: float,
    law: np.ndarray,
    method: channel.Method,
) -> View:
    """One message: Alice's index, its price, and what Bob makes of it with q and the seed alone."""
    decode, index = channel.DECODERS[method], message.index
    received = decode(index, at["q"], seed, n)
    assert received == message.token_id, "Bob's token is not Alice's"
    return {
        "id": received,
        "text": at["texts"][received],
        "index": index,
        "bits": channel.encode_elias_gamma([index]),
        "ideal": -math.log2(law[index]) if index < len(law) else 32 - math.log2(1 - law.sum()),
        "kl": kl,
        "entropy_with": at["entropy_with"],
        "entropy_without": at["entropy_without"],
        "proposals": [at["texts"][decode(i, at["q"], seed, n)] for i in range(min(index, _SHOWN) + 1)],
        "texts": at["texts"],
        "p": at["p"],
        "q": at["q"],
    }


def _totals(tokens: Sequence[View], indices: list[int], law: np.ndarray, method: str) -> list[list[str]]:
    """Rows: what, bits of the whole sentence, bits a token."""
    bound, constant, source = BOUNDS[method]
    coded = channel.encode_indices(indices, law)
    assert channel.decode_indices(coded, len(indices), law) == indices
    rows = [
        (
            "D_KL[P‖Q]: with independent proposals no code needs less on average",
            [token["kl"] for token in tokens],
        ),
        ("H[index], proposals with replacement", [token["entropy_with"] for token in tokens]),
        (
            f"its bound D_KL + log₂(D_KL + 1) + {constant:.3g} ({source})",
            [bound(token["kl"]) for token in tokens],
        ),
        (
            f"H[R], proposals without replacement, {RELATIVES[method]}'s child index"
            + (": the index sent here" if method == "poisson_functional" else ""),
            [token["entropy_without"] for token in tokens],
        ),
        ("ideal length by Zipf's law", [token["ideal"] for token in tokens]),
        ("sent token by token, Elias γ", [len(token["bits"]) for token in tokens]),
        (
            "sent as one message, range coder with Zipf's law, 32-bit words, a header of 64 bits among them",
            [8 * len(coded)],
        ),
    ]
    return [[name, f"{sum(bits):.1f}", f"{sum(bits) / len(tokens):.2f}"] for name, bits in rows]


_AT_LEAST = {
    "greedy_rejection": "One sentence is one draw and may take less; the mean over many takes D_KL at least.",
    "poisson_functional": "Repeated proposals are not counted, so the mean over many may lie below D_KL too.",
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
    return {
        "title": "Bits so far",
        "sentence": sentence,
        "key": _AT_LEAST[method],
        "place": "Paper: Section 4, Equations 6 to 8",
        "figure": skeleton(figures.bits_so_far(*sums)),
        "table": {
            "caption": "Bits so far",
            "columns": ["tokens", "sent, Elias γ", "ideal, Zipf", "D_KL", "bound"],
            "rows": [
                [str(n), str(a), *(f"{value:.2f}" for value in rest)]
                for n, (a, *rest) in enumerate(zip(*sums, strict=True), start=1)
            ],
        },
    }


# ---------------------------------------------------------------- laws of the index


class Laws(Question):
    """A codec, and the weights of each token under P and Q."""

    method: channel.Method
    p: _Weights
    q: _Weights


@answers
def laws(asked: Laws) -> Answer:
    """The index laws of one P and Q, with and without replacement."""
    method, p, q = asked.method, _shares("P", asked.p), _shares("Q", asked.q)
    if len(p) != len(q):
        raise ValueError(f"P has {len(p)} tokens and Q has {len(q)}; both need the same")
    both = channel.index_laws(p, q, method)
    bound, constant, source = BOUNDS[method]
    rows = _index_rows(both)
    return {
        "p": p,
        "q": q,
        "below": both.entropy_without < both.kl - 1e-9,
        "plot": {
            "title": f"The index's law, {NAMES[method]}",
            "sentence": _about_laws(both, method, len(p)),
            "key": f"Upper bound of H with replacement: {bound(both.kl):.2f} bits = D_KL + log₂(D_KL + 1) + "
            f"{constant:.3g}, {source}.",
            "place": "Paper: Section 4, Equations 6 to 8; Section 2 for drafts without replacement",
            "figure": skeleton(figures.index_laws(*zip(*[row[1:] for row in rows], strict=True))),
            "table": {
                "caption": "Probability of each index",
                "columns": ["index", "with replacement", "without replacement"],
                "rows": [[str(i), f"{a:.4f}", f"{b:.4f}"] for i, a, b in rows],
            },
        },
    }


def _index_rows(both: channel.IndexLaws) -> list[tuple[int, float, float]]:
    size = min(_SHOWN, max(len(both.with_replacement), len(both.without_replacement)))
    padded = [np.pad(law[:size], (0, max(0, size - len(law)))) for law in both[1::2]]
    return [(i, float(a), float(b)) for i, (a, b) in enumerate(zip(*padded, strict=True))]


def _about_laws(both: channel.IndexLaws, method: str, tokens: int) -> str:
    drawn, counted = _REPLACEMENT[method]
    told = (
        f"D_KL[P‖Q] = {both.kl:.2f} bits. With replacement, {drawn}, H[index] = {both.entropy_with:.2f} "
        f"bits, never below D_KL. Without, {counted}, H[R] = {both.entropy_without:.2f} bits"
    )
    if both.entropy_without >= both.kl - 1e-9:
        return f"{told}; here it is not below D_KL either."
    return (
        f"{told}, which is below D_KL. That breaks no theorem: D_KL ≤ H holds for independent proposals. A "
        f"token that was rejected and never comes back leaves only {tokens} indices, so H ≤ log₂ {tokens} = "
        f"{math.log2(tokens):.2f} bits however far Q is from P."
    )


_REPLACEMENT = {
    "greedy_rejection": ("as greedy rejection draws its proposals", "as GSD drafts its children"),
    "poisson_functional": (
        "every point of the Poisson process counted",
        "points that repeat an earlier token left out, as ERSD's children and the index sent above",
    ),
}
"""How an index comes about, with replacement and without."""


def _shares(name: str, weights: Sequence[float]) -> list[float]:
    total = math.fsum(weights)
    if not total:
        raise ValueError(f"all weights of {name} are 0; one at least must be above")
    return [weight / total for weight in weights]


# ---------------------------------------------------------------- Tunstall codes


class Word(Question):
    """The weights of a source's letters a, b, ..., the inner nodes of its code's tree, and a word of its."""

    weights: Annotated[list[_Weight], Field(min_length=2, max_length=MOST_SYMBOLS)]
    k: Annotated[int, Field(ge=0, le=MOST_K)]
    word: Annotated[str, Field(min_length=1, max_length=MOST_LETTERS)]


@answers
def tunstall(asked: Word) -> Answer:
    """A word through a Tunstall code: phrases, codewords, and the rate beside the entropy."""
    rates, k = _shares("the source", asked.weights), asked.k
    symbols = _symbols(asked.word, len(rates))
    codes = {n: channel.TunstallCode(rates, n) for n in range(MOST_K + 1)}
    code = codes[k]
    bits = code.encode(symbols)
    decoded = code.decode(bits)
    assert decoded == symbols
    header = 2 * bits.index("1") + 1
    words = [bits[at : at + code.codeword_bits] for at in range(header, len(bits), code.codeword_bits)]
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
        f"header: {bits / letters:.2f} bits a letter. In the long run it is {code.rate:.3f}, the entropy "
        f"{code.entropy:.3f}; a phrase has {code.expected_phrase:.2f} letters on average, as a round of "
        "speculative decoding with this R and this tree has tokens."
    )


def _rate_plot(codes: Mapping[int, channel.TunstallCode], k: int) -> View:
    rates = [code.rate for code in codes.values()]
    code = codes[k]
    figure = figures.tunstall_rates(list(codes), rates, code.entropy, k)
    return {
        "title": "Rate beside entropy",
        "sentence": f"With k = {k}: {code.num_codewords} codewords, {code.rate:.3f} bits a letter, "
        f"{100 * (code.rate / code.entropy - 1):.1f}% above the entropy of {code.entropy:.3f}."
        if code.entropy
        else "A source that always says the same has an entropy of 0.",
        "key": "The rate jumps where one more codeword needs one more bit.",
        "place": "Paper: Appendix C; the tree is Algorithm 3's optimal draft tree",
        "figure": skeleton(figure),
        "table": {
            "caption": "Codes by k",
            "columns": ["k", "codewords", "bits a codeword", "letters a phrase", "bits a letter"],
            "rows": [
                [
                    str(n),
                    str(c.num_codewords),
                    str(c.codeword_bits),
                    f"{c.expected_phrase:.3f}",
                    f"{c.rate:.3f}",
                ]
                for n, c in codes.items()
            ],
        },
    }


def _codebook(code: channel.TunstallCode) -> View:
    words = [f"{number:0{code.codeword_bits}b}" for number in range(min(code.num_codewords, 256))]
    return {
        "caption": f"Codebook, {len(words)} of {code.num_codewords} codewords",
        "columns": ["phrase", "codeword"],
        "rows": [[_letters(code.decode("1" + word)), word] for word in words],
    }


# ---------------------------------------------------------------- panel

_TEMPLATE = f"""
<section aria-labelledby="codec-title">
  <h2 class="visually-hidden" id="codec-title">Codecs</h2>
  <p class="lead">Speculative decoding is akin to channel simulation, sending samples. Alice knows the
    target's {frame.term("law")} P of the next token, Bob only the draft's law Q; both draw the same
    proposals from Q with shared randomness. Alice sends the <b>{frame.term("index")}</b> of one
    proposal that is a sample of P, and Bob has the token from the index alone. In the paper:
    {paper.reference("Section 4, equations 6 to 8")}, and for Tunstall codes
    {paper.reference("Appendix C")}.</p>
  <p class="message error-box" role="alert" hidden></p>

  <div class="part" data-slide="A sentence from Alice to Bob">
    <h3>A sentence from Alice to Bob</h3>
    <div class="fields">
      <label>Codec <select class="codec"></select></label>
      <label>Sentence <select class="sentence"></select></label>
      <button type="button" class="reseed">New shared randomness</button>
      <button type="button" class="recorded" hidden>Recorded randomness</button>
    </div>
    <p class="note seed"></p>
    <p class="key">Under each token: the index that was sent, in bits of the {frame.term("Elias γ")} code.
      Choose a token to see its proposals.</p>
    <p class="received"></p>
    <div class="message-of-one" aria-live="polite"></div>
    <div class="two">
      <div>
        <p class="key">In bits: H is an {frame.term("entropy")}, {frame.term("D_KL")} how far P is from Q.</p>
        <div class="scroll wrap"></div>
        <details open><summary>Table of the tokens</summary><div class="scroll tokens-table"></div></details>
      </div>
      <div class="bits-plot"></div>
    </div>
  </div>

  <div class="part" data-slide="With and without replacement">
    <h3>With and without replacement</h3>
    <p class="key">Weights of P and Q; they are scaled to sum to 1. Choosing a token above puts its laws
      here.</p>
    <div class="fields"><label>Laws <select class="preset"></select></label></div>
    <div class="two">
      <div class="scroll laws-table"></div>
      <div class="laws-plot"></div>
    </div>
  </div>

  <div class="part" data-slide="Tunstall code">
    <h3>Tunstall code</h3>
    <p>Variable to fixed: the word is cut into phrases, the leaves of a tree whose inner nodes are the optimal
      draft tree, and each phrase becomes a codeword of equal length.</p>
    <div class="fields">
      <label>Weights of a, b, … <input type="text" class="weights" value="0.7, 0.2, 0.1" size="18"></label>
      <label>k <input type="number" class="k" min="0" max="64" step="1" value="7"></label>
      <label class="wide">Word <input type="text" class="word" maxlength="400"
        value="aabacaaaabaaacabaaaaabaa" autocapitalize="off" spellcheck="false"></label>
    </div>
    <p class="message error-box word-message" role="alert" hidden></p>
    <p class="about-word"></p>
    <p class="phrases"></p>
    <div class="two">
      <div class="rate-plot"></div>
      <details open><summary>Codebook</summary><div class="scroll codebook"></div></details>
    </div>
  </div>
</section>
"""


def panel() -> gr.HTML:
    """The laboratory; it needs no model and fetches its first view when it is shown."""
    sentences = [[s["method"], s["prompt"]] for s in recorded()["sentences"]] if RECORDED.is_file() else []
    return frame.panel(
        "codec_lab",
        _TEMPLATE,
        server_functions=[sent, laws, tunstall],
        plotly=assets.file_url(assets.PLOTLY),
        sentences=sentences,
        codecs=[[method, f"{NAMES[method]} ({RELATIVES[method]}'s relative)"] for method in channel.METHODS],
        presets=PRESETS,
    )
