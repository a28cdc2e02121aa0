"""Measured bits of the codecs beside entropy, D_KL and bounds: `python -m research.channel`.

Numbers are bits per message, or bits per symbol for Tunstall codes. Seeds are fixed. The bounds are D_KL +
log(D_KL + 1) + `theory.GREEDY_REJECTION_CONSTANT` or `theory.PFR_CONSTANT`. D_KL <= H[index] is a theorem for
proposals with replacement, here for greedy rejection. The Poisson functional index of this project does not
count repeated proposals. Its entropy is therefore ERSD's H[R], and may be below D_KL.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from specdec import channel
from specdec.commands import Parser, columns, ended

PAIRS = {
    "near": ((0.1, 0.45, 0.05, 0.3, 0.1), (0.2, 0.35, 0.1, 0.25, 0.1)),
    "middle": ((0.1, 0.45, 0.05, 0.3, 0.1), (0.4, 0.1, 0.3, 0.1, 0.1)),
    "far": ((0.01, 0.99), (0.99, 0.01)),
}
"""P and Q by name. For the last pair, the entropy of the index without replacement is far below D_KL."""
SOURCE, NODES = (0.6, 0.2, 0.1, 0.1), (0, 4, 20, 340, 5460)
"""A Tunstall source, and k whose codewords almost fill 2, 4, 6, 10 and 14 bits."""
SEED = 7


class Row(NamedTuple):
    """One pair and codec, in bits per message.

    entropy: of the index that is sent. own, zipf: measured with the range code of the index's own
    distribution, and with that of Zipf's, which depends on D_KL alone. without: entropy of the index without
    replacement.
    """

    pair: str
    method: channel.Method
    kl: float
    entropy: float
    bound: float
    own: float
    zipf: float
    without: float


def rows(messages: int) -> list[Row]:
    """All pairs and codecs, each with this many messages."""
    return [_row(pair, method, messages) for pair in PAIRS for method in channel.METHODS]


def _row(pair: str, method: channel.Method, messages: int) -> Row:
    p, q = PAIRS[pair]
    distributions = channel.index_distributions(p, q, method)
    # this project's Poisson functional index does not count repeated proposals
    own, entropy = {
        "greedy_rejection": (distributions.with_replacement, distributions.entropy_with),
        "poisson_functional": (distributions.without_replacement, distributions.entropy_without),
    }[method]
    sent = channel.transmit(p, q, SEED, method, count=messages, distribution=own)
    zipf = channel.transmit(p, q, SEED, method, count=messages)
    return Row(
        pair, method, sent.kl, entropy, sent.bound, sent.bits, zipf.bits, distributions.entropy_without
    )


class Rate(NamedTuple):
    """One Tunstall code in bits per symbol: as computed, and as measured on a random sequence."""

    k: int
    codeword_bits: int
    rate: float
    measured: float
    entropy: float


def rates(symbols: int) -> list[Rate]:
    """Codes of growing k on one sequence of this many symbols."""
    sequence = np.random.default_rng(SEED).choice(len(SOURCE), symbols, p=SOURCE).tolist()
    codes = {k: channel.TunstallCode(SOURCE, k) for k in NODES}
    return [
        Rate(k, code.codeword_bits, code.rate, len(code.encode(sequence)) / symbols, code.entropy)
        for k, code in codes.items()
    ]


def as_text(messages: int, symbols: int) -> str:
    """Both tables for a terminal."""
    codecs = [["pair", "codec", "D_KL", "H[index]", "bound", "sent", "Zipf", "H w/o r."]]
    codecs += [[row.pair, row.method, *(f"{value:.3f}" for value in row[2:])] for row in rows(messages)]
    tunstall = [["k", "codeword", "rate", "sent", "entropy"]]
    tunstall += [[f"{r.k}", f"{r.codeword_bits}", *(f"{x:.4f}" for x in r[2:])] for r in rates(symbols)]
    heads = (
        f"bits per message, {messages:,} messages",
        f"Tunstall codes, bits per symbol, {symbols:,} symbols",
    )
    return f"{heads[0]}\n\n{columns(codecs)}\n\n{heads[1]}\n\n{columns(tunstall)}"


def main(arguments: list[str] | None = None) -> None:
    """Print the tables."""
    parser = Parser(prog="python -m research.channel", description=__doc__)
    parser.add_argument("--messages", type=int, default=4000)
    parser.add_argument("--symbols", type=int, default=40_000)
    options = parser.parse_args(arguments)
    print(as_text(options.messages, options.symbols))


if __name__ == "__main__":
    with ended():
        main()
