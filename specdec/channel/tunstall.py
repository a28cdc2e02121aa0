"""Tunstall codes, which map phrases of source symbols to codewords of one length."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from specdec import theory
from specdec.channel.checked import check_bits, one_distribution
from specdec.channel.codes import elias_gamma, read_elias_gamma
from specdec.checks import integers, whole
from specdec.optimal import optimal_topology
from specdec.theory import Distribution
from specdec.topology import Topology


class TunstallCode:
    """Variable-to-fixed code of a source of independent symbols (Appendix C of the paper).

    probabilities: of the symbols 0, ..., n - 1, [n], n >= 2. k: the number of inner nodes of the code tree,
    without the root. The inner nodes form the optimal draft tree of k tokens, whose acceptance by index is
    the symbols' probabilities in falling order. Every inner node, and the root, has n children. Each of the
    k(n - 1) + n leaves is a phrase, and the number of the leaf is the codeword.

        probabilities (.7, .2, .1), k = 1:    root ─┬─ 0 ─┬─ 0    codeword 2
                                                    │     ├─ 1    codeword 3
                                                    │     └─ 2    codeword 4
                                                    ├─ 1          codeword 0
                                                    └─ 2          codeword 1
    """

    def __init__(self, probabilities: Distribution, k: int):
        rates = one_distribution("probabilities", probabilities)
        if len(rates) < 2:
            raise ValueError("probabilities has one symbol; a code needs at least two")
        k = whole("k", k, 0)
        self.num_symbols = len(rates)
        self._symbols = np.argsort(-rates, kind="stable").tolist()
        self._child_index = {symbol: i for i, symbol in enumerate(self._symbols)}
        self._rates = rates[self._symbols]
        self.topology = optimal_topology(self._rates, k) if k else Topology([])
        inner = np.array([len(children) for children in self.topology.children])
        # leaves are numbered node by node: first_leaf[row] is the number of this node's first leaf
        self._inner = inner.tolist()
        self._first_leaf = np.concatenate([[0], np.cumsum(len(rates) - inner)]).tolist()
        self.num_codewords = self._first_leaf[-1]
        assert self.num_codewords == k * (len(rates) - 1) + len(rates)

    @property
    def codeword_bits(self) -> int:
        """Bits per codeword: ⌈log2(k(n - 1) + n)⌉."""
        return (self.num_codewords - 1).bit_length()

    @property
    def expected_phrase(self) -> float:
        """The mean number of symbols in a phrase. In decoding, it corresponds to the tokens of a round."""
        return theory.expected_tokens(self._rates, self.topology)

    @property
    def rate(self) -> float:
        """Bits per symbol of a long message, at least `entropy`."""
        return self.codeword_bits / self.expected_phrase

    @property
    def entropy(self) -> float:
        """The entropy of the source, in bits per symbol."""
        return float(theory.entropy(self._rates))

    def encode(self, symbols: Iterable[int]) -> str:
        """Encode any sequence of symbols, also an empty one, as a string of 0 and 1.

        The last phrase is completed with filler symbols. The number of filler symbols, in Elias gamma, comes
        before the codewords. ValueError names a symbol that the source does not have.
        """
        row = 0
        codewords: list[int] = []
        for symbol in integers("symbols", symbols):
            if symbol not in self._child_index:
                raise ValueError(f"symbol {symbol!r} is not an integer from 0 to {self.num_symbols - 1}")
            row = self._step(row, self._child_index[symbol], codewords)
        filled = 0
        while row:
            row = self._step(row, self.num_symbols - 1, codewords)
            filled += 1
        return elias_gamma(filled + 1) + "".join(f"{word:0{self.codeword_bits}b}" for word in codewords)

    def decode(self, bits: str) -> list[int]:
        """Decode the output of `encode`. ValueError if `encode` can't have written these bits."""
        check_bits(bits)
        filled, start = read_elias_gamma(bits, 0)
        if (len(bits) - start) % self.codeword_bits:
            raise ValueError(
                f"{len(bits) - start} bits are not a multiple of the {self.codeword_bits} bits of a codeword"
            )
        symbols: list[int] = []
        for first in range(start, len(bits), self.codeword_bits):
            symbols += self.phrase(int(bits[first : first + self.codeword_bits], 2))
        if filled - 1 > len(symbols):
            raise ValueError(f"bits have {filled - 1} filler symbols, but only {len(symbols)} symbols in all")
        symbols = symbols[: len(symbols) - filled + 1]
        if self.encode(symbols) != bits:
            raise ValueError(f"bits = {bits!r:.40} do not end with the filler symbols that encode writes")
        return symbols

    def _step(self, row: int, child_index: int, codewords: list[int]) -> int:
        """The row of the child with this index. For a leaf, append its codeword and return the root's row."""
        leaf = child_index - self._inner[row]
        if leaf < 0:
            return self.topology.children[row][child_index]
        codewords.append(self._first_leaf[row] + leaf)
        return 0

    def phrase(self, codeword: int) -> list[int]:
        """The symbols that this codeword encodes. ValueError if there is no such codeword."""
        if not 0 <= codeword < self.num_codewords:
            raise ValueError(f"codeword {codeword} is not a number from 0 to {self.num_codewords - 1}")
        row = int(np.searchsorted(self._first_leaf, codeword, side="right")) - 1
        last = codeword - self._first_leaf[row] + self._inner[row]
        path = [self.topology.child_indices[ancestor] for ancestor in self.topology.ancestors(row)[1:]]
        return [self._symbols[child_index] for child_index in (*path, last)]
