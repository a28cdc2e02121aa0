"""The two relatives of speculative decoding in information theory, as codecs (Section 4 of the paper).

Channel simulation: Alice knows P and Q, Bob only Q. Both draw the same proposals from Q, from a seed they
share; Alice sends the index of one that is a sample of P, in about D_KL[P || Q] bits.

    greedy rejection sampling          takes proposals one by one, as GSD tries the children of a batch, but
                                       draws them with replacement
    Poisson functional representation  takes the winner of the race under P; its index is its place in the
                                       race under Q, as in ERSD

Tunstall codes: the inner nodes of their trees are the optimal draft tree.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Literal, NamedTuple, get_args

import constriction
import numpy as np
import torch

from specdec import theory
from specdec.checks import real, whole
from specdec.optimal import optimal_topology
from specdec.race import arrivals, log_exponentials, uniform, winner
from specdec.theory import Distribution
from specdec.theory.divergences import checked_distribution, checked_pair
from specdec.theory.gsd_by_index import SortedPair
from specdec.topology import Topology

Method = Literal["greedy_rejection", "poisson_functional"]
METHODS: tuple[Method, ...] = get_args(Method)

MOST_PROPOSALS = 100_000
"""Proposals that greedy rejection sampling tests for one message, a second's work."""


class Stream(IntEnum):
    """Noise of channel simulation, beside the streams of decoding; Alice's tests are hers alone."""

    PROPOSAL = 16
    TEST = 17
    POISSON = 18


class Message(NamedTuple):
    """What Alice chose: the sample of P, and its 0-based index among the shared proposals."""

    index: int
    token_id: int


def greedy_rejection_encode(p: Distribution, q: Distribution, seed: int, position: int = 0) -> Message:
    """Greedy rejection sampling (Harsha et al., 2010; Section 4): the first proposal that is accepted.

    p, q: [n]. position: number of the message. Proposal x is accepted with probability
    max(P_x - λQ_x, 0) / (S Q_x), where S = Σ max(P - λQ, 0) and λ grows by S with each rejection: GSD's
    tests, the draft never losing a token. Tests max p/q proposals on average. ValueError where p
    or q is no distribution or p has support that q lacks, and where none of the first `MOST_PROPOSALS`
    is accepted.
    """
    p, q = _covered_pair(p, q)
    level, running_q = 0.0, np.cumsum(q)
    for index in range(MOST_PROPOSALS):
        mass = np.maximum(p - level * q, 0).sum()
        x = _proposal(running_q, seed, position, index)
        test = uniform(seed, position, index, Stream.TEST) * mass * q[x]
        # no mass is left after rounding errors alone, when all of P has been given out
        if test < p[x] - level * q[x] or mass <= 0:
            return Message(index, x)
        level += mass
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        most = np.nanmax(p / q)
    raise ValueError(
        f"none of the first {MOST_PROPOSALS:,} proposals is accepted: p / q is {most:.3g} somewhere, and so "
        f"many are tested on average; the index of poisson_functional is always below {len(p)}"
    )


def greedy_rejection_decode(index: int, q: Distribution, seed: int, position: int = 0) -> int:
    """Alice's sample, from the index alone: the shared proposal with that index (Section 4)."""
    running_q = np.cumsum(_single("q", q))
    return _proposal(running_q, seed, position, _checked_index(index))


def poisson_functional_encode(p: Distribution, q: Distribution, seed: int, position: int = 0) -> Message:
    """Poisson functional representation (Li and El Gamal, 2018; Section 4) over a finite alphabet: one race.

    The sample is the race's winner under P, the index its place in the race under Q. Proposals that
    repeat an earlier one can never win and are not counted, so the index is ERSD's child index.
    """
    p, q = _covered_pair(p, q)
    log_e = _race(len(p), seed, position)
    log_p, log_q = torch.from_numpy(p).log(), torch.from_numpy(q).log()
    token_id = int(winner(log_p, log_e))
    times = log_e - log_q
    return Message(int((times < times[token_id]).sum()), token_id)


def poisson_functional_decode(index: int, q: Distribution, seed: int, position: int = 0) -> int:
    """Alice's sample, from the index alone: that arrival in the race under Q (Section 4)."""
    q = _single("q", q)
    index = _checked_index(index)
    order = arrivals(torch.from_numpy(q).log()[None], _race(len(q), seed, position)[None], index + 1)[0]
    if index >= len(order):
        raise ValueError(f"index = {index}, but the race under q has {len(order)} arrivals")
    return order[index]


ENCODERS = {"greedy_rejection": greedy_rejection_encode, "poisson_functional": poisson_functional_encode}
DECODERS = {"greedy_rejection": greedy_rejection_decode, "poisson_functional": poisson_functional_decode}
_BOUND = {
    "greedy_rejection": theory.greedy_rejection_entropy_bound,
    "poisson_functional": theory.pfr_entropy_bound,
}


class IndexLaws(NamedTuple):
    """Laws of the index, and what they cost in bits, for proposals with and without replacement.

    with_replacement [count]: the law of channel simulation; entropy_with is that of all its indices, those
    beyond `count` too, and D_KL <= entropy_with. without_replacement [at most count]: the law of speculative
    decoding, R by child index; its entropy counts what is missing to 1 as one more outcome, and may fall
    below D_KL.
    """

    kl: float
    with_replacement: np.ndarray
    entropy_with: float
    without_replacement: np.ndarray
    entropy_without: float


def index_laws(p: Distribution, q: Distribution, method: Method, count: int = 4096) -> IndexLaws:
    """The index laws of one pair [n], [n], side by side, up to `count` indices.

    The laws whose entropies Equations 7 to 9 bound: greedy_rejection beside GSD, poisson_functional beside
    ERSD. Large vocabularies are simulated without replacement, see `theory.estimate_gsd_acceptance_by_index`.
    ValueError where p or q is no distribution, p has support that q lacks, or count < 1.
    """
    count = whole("count", count, 1)
    p, q = _covered_pair(p, q)
    by_index = {
        "greedy_rejection": (_greedy_rejection_law, theory.gsd_acceptance_by_index),
        "poisson_functional": (_poisson_functional_law, theory.ersd_acceptance_by_index),
    }
    simulation, decoding = by_index[_checked_method(method)]
    given, beyond = simulation(p, q, count)
    tree = decoding(p, q, min(count, len(q))).numpy()
    entropy = max(0.0, _surprise(given) + beyond)
    return IndexLaws(float(theory.kl_divergence(p, q)), given, entropy, tree, _law_entropy(tree))


def _greedy_rejection_law(p: np.ndarray, q: np.ndarray, count: int) -> tuple[np.ndarray, float]:
    """R(r) = S(λ_r) - S(λ_{r+1}) with λ_{r+1} = λ_r + S(λ_r), r < count, and the entropy of the others.

    What is rejected does not matter.
    """
    pair = SortedPair(p, q)
    survival, level = np.ones(count + 1), 0.0
    for index in range(count):
        level += survival[index]
        survival[index + 1] = pair.survival(np.array(level))
    return -np.diff(survival), _entropy_of_pieces(pair, level, survival[-1])


def _entropy_of_pieces(pair: SortedPair, level: float, mass: float) -> float:
    """-Σ R(r) log R(r) of greedy rejection's index from where it has come to λ = `level`, S(λ) = `mass`.

    Between two ratios p/q, S is a line of slope -w, w = Q(p/q above): a step takes the part w of what is
    left, so that the index is geometric until λ passes the next ratio.
    """
    entropy = 0.0
    while mass > _NEGLIGIBLE and level < pair.ratio[-1]:
        first = int(np.searchsorted(pair.ratio, level))
        ratio, weight = float(pair.ratio[first]), min(float(pair.q_above[first]), 1.0)
        left = float(pair.survival(np.array(ratio))) / mass
        if not left:
            return entropy + _geometric_entropy(mass, weight, 1.0)
        steps = math.floor(math.log(left) / math.log1p(-weight)) if max(left, weight) < 1 else 0
        if steps:
            decay = steps * math.log1p(-weight)
            part = -math.expm1(decay)
            entropy += _geometric_entropy(mass, weight, part)
            level, mass = level + mass * part / weight, mass * math.exp(decay)
        # past the ratio, even where a step is less than rounding
        level = max(level + mass, math.nextafter(ratio, math.inf))
        after = float(pair.survival(np.array(level)))
        entropy += _surprise(np.array([mass - after]))
        mass = after
    return entropy


def _geometric_entropy(mass: float, weight: float, part: float) -> float:
    """-Σ R log R of R = mass · weight · (1 - weight)^j, from j = 0 until a part of the mass is taken.

    By the chain rule: all of a geometric index is whether it lies in that part, and where there or beyond.
    """
    taken = mass * part
    inside = _binary_entropy(weight) / weight - _binary_entropy(part) / part
    return taken * (inside - math.log2(taken))


def _binary_entropy(x: float) -> float:
    return -sum(y * math.log2(y) for y in (x, 1 - x) if y > 0)


def _poisson_functional_law(p: np.ndarray, q: np.ndarray, count: int) -> tuple[np.ndarray, float]:
    """Σ_i p_i A_i^r / (1 + A_i)^(r + 1), r < count, and the entropy of the others.

    Given the winner i, the index is geometric: until i wins, the proposals that arrive before it are Poisson
    with a mean of A_i t at an exponential time t, A_i = Σ_j max(0, q_j p_i / q_i - p_j) being the inverse of
    ERSD's i-th term, less 1.
    """
    p, q = p[p > 0], q[p > 0]
    order = np.argsort(p / q)
    p, q = p[order], q[order]
    left_out = max(1 - q.sum(), 0.0)
    overtaking = np.maximum(p / q * (np.cumsum(q) - q + left_out) - (np.cumsum(p) - p), 0)
    weights, inner = p / (1 + overtaking), overtaking > 0
    decays = np.log(overtaking[inner]) - np.log1p(overtaking[inner])
    certain, weights = weights[~inner].sum(), weights[inner]

    def law(indices: np.ndarray) -> np.ndarray:
        parts = np.array_split(np.arange(len(weights)), 1 + len(weights) * len(indices) // _AT_ONCE)
        return sum(weights[some] @ np.exp(decays[some, None] * indices) for some in parts)

    given = law(np.arange(count))
    given[0] += certain
    # beyond, the law is smooth enough for a sum to be an integral: over log r, in pieces
    last = _TAIL * (1 + overtaking.max())
    if last <= count:
        return given, 0.0
    ends = np.linspace(math.log(count - 0.5), math.log(last), 2 + int(2 * math.log(last / count)))
    places, shares = np.polynomial.legendre.leggauss(8)
    half = np.diff(ends)[:, None] / 2
    points = np.exp(ends[:-1, None] + half * (1 + places)).ravel()
    return given, float(_surprises(law(points)) @ ((half * shares).ravel() * points))


def _surprise(law: np.ndarray) -> float:
    """-Σ x log x."""
    return float(_surprises(law).sum())


def _surprises(law: np.ndarray) -> np.ndarray:
    return -law * np.log2(law, out=np.zeros_like(law), where=law > 0)


def _law_entropy(law: np.ndarray) -> float:
    missing = max(0.0, 1 - math.fsum(law))
    return max(0.0, _surprise(np.append(law, missing if missing > 1e-12 else 0.0)))


class Transmission(NamedTuple):
    """What arrived, and what it cost in bits a message.

    token_ids: Bob's samples of P, equal to Alice's. indices: what was sent. data: the code. bits: 8 ·
    len(data) / messages. kl, bound: mean D_KL[P || Q], and the upper bound of the index's entropy.
    """

    token_ids: tuple[int, ...]
    indices: tuple[int, ...]
    data: bytes
    bits: float
    kl: float
    bound: float


def transmit(
    p: Distribution,
    q: Distribution,
    seed: int,
    method: Method,
    *,
    count: int | None = None,
    law: Sequence[float] | np.ndarray | None = None,
) -> Transmission:
    """Channel simulation (Section 1): Alice sends Bob samples of P, token by token.

    p, q: [messages, n], or [n] with a count of messages. law: probabilities by index of the code that both
    agreed on; None takes `zipf_law` of the mean D_KL. Bob uses q, the seed, the law and the data only.
    ValueError as for the encoder of the method.
    """
    p, q = checked_pair(p, q)
    if count is not None:
        if p.dim() != 1:
            raise ValueError(f"count = {count}, but p and q have a row for each message already")
        count = whole("count", count, 1)
        p, q = p.expand(count, -1), q.expand(count, -1)
    if p.dim() != 2 or not len(p):
        raise ValueError(f"p has shape {tuple(p.shape)}; [messages, n] is needed, or [n] with a count")
    encode, decode = ENCODERS[_checked_method(method)], DECODERS[method]
    sent = [encode(p[n], q[n], seed, n) for n in range(len(p))]
    kl = float(theory.kl_divergence(p, q).mean())
    law = zipf_law(kl) if law is None else law
    data = encode_indices([message.index for message in sent], law)
    received = decode_indices(data, len(p), law)
    token_ids = tuple(decode(index, q[n], seed, n) for n, index in enumerate(received))
    assert token_ids == tuple(message.token_id for message in sent), "Bob's samples are not Alice's"
    return Transmission(token_ids, tuple(received), data, 8 * len(data) / len(p), kl, _BOUND[method](kl))


def zipf_law(kl: float, size: int = 4096) -> np.ndarray:
    """Probabilities [size] of indices ∝ (index + 1)^-s, s = 1 + 1 / (D_KL + log(e) / e + 1).

    The code behind Equation 9, of Li and El Gamal (2018): all it needs to know is D_KL in bits, and it stays
    within log(D_KL + 1) + 5 bits of it. Sums to 1 over all indices; what lies beyond `size` is an escape.
    ValueError where kl is no finite number of bits from 0 up.
    """
    bits, size = real(kl), whole("size", size, 1)
    if bits is None or bits < 0:
        raise ValueError(f"kl = {kl!r} is not a finite number of bits from 0 up")
    exponent = 1 + 1 / (bits + math.log2(math.e) / math.e + 1)
    weights = np.arange(1, size + 1) ** -exponent
    beyond = (size + 0.5) ** (1 - exponent) / (exponent - 1)  # the sum of the rest, as an integral
    return weights / (weights.sum() + beyond)


def encode_indices(indices: Sequence[int], law: Sequence[float] | np.ndarray) -> bytes:
    """Range code of indices, about -log2 law[index] bits each, in whole words of 32 bits.

    The bits that Equations 7 to 9 count. law: [n] probabilities, summing to at most 1. Indices from n on, up
    to 2³², cost an escape and 32 bits. Two words stand in front: how many indices there are, and a check
    value of them and of the code.
    """
    model, size = _index_model(law)
    indices = [_checked_index(index) for index in indices]
    encoder = constriction.stream.queue.RangeEncoder()
    for index in indices:
        encoder.encode(min(index, size), model)
        if index >= size:
            for half in divmod(index - size, 1 << 16):
                encoder.encode(half, _HALF)
    code = encoder.get_compressed().astype("<u4").tobytes()
    return _HEADER.pack(len(indices), _check_value(code, indices)) + code


def decode_indices(data: bytes, count: int, law: Sequence[float] | np.ndarray) -> list[int]:
    """The `count` indices that `encode_indices` wrote with the same law, in the bits of Equations 7 to 9.

    ValueError where it did not write them.
    """
    model, size = _index_model(law)
    if not isinstance(data, bytes | bytearray | memoryview) or len(data) < _HEADER.size or len(data) % 4:
        raise ValueError(f"data = {data!r:.40} is no output of encode_indices")
    written, check = _HEADER.unpack_from(data)
    if written != count:
        raise ValueError(f"count = {count!r}, but the data says that it holds {written:,} indices")
    code = bytes(data[_HEADER.size :])
    indices = _read_indices(code, written, model, size)
    if indices is None or _check_value(code, indices) != check:
        raise ValueError("data is damaged, or was written with another law: its check value does not fit")
    return indices


def _read_indices(
    code: bytes, count: int, model: constriction.stream.model.Categorical, size: int
) -> list[int] | None:
    """The indices in a range code; None where it is none."""
    decoder = constriction.stream.queue.RangeDecoder(np.frombuffer(code, "<u4").astype(np.uint32))
    indices = []
    try:
        for _ in range(count):
            index = int(decoder.decode(model))
            if index == size:
                index += (int(decoder.decode(_HALF)) << 16) + int(decoder.decode(_HALF))
            indices.append(index)
    except AssertionError:  # how constriction says that no encoder writes this
        return None
    return indices


def _check_value(code: bytes, indices: Sequence[int]) -> int:
    return zlib.crc32(code, zlib.crc32(np.array(indices, dtype="<u8").tobytes()))


def encode_elias_gamma(indices: Iterable[int]) -> str:
    """Bits, as text of 0 and 1, of indices, each by itself: 2⌊log2(index + 1)⌋ + 1 bits.

    Beside the paper. Needs no law that both agreed on, and the receiver knows each index as soon as its last
    bit is there; `encode_indices` is shorter over a whole message. ValueError names what is no index.
    """
    return "".join(_elias_gamma(_checked_index(index) + 1) for index in indices)


def decode_elias_gamma(bits: str) -> list[int]:
    """The indices that `encode_elias_gamma` wrote (beside the paper); ValueError where it wrote none."""
    indices, start = [], 0
    _check_bits(bits)
    while start < len(bits):
        value, start = _read_elias_gamma(bits, start)
        if value > 1 << 32:
            raise ValueError(f"bits hold the index {value - 1:,}, which is beyond 2**32 - 1")
        indices.append(value - 1)
    return indices


_HEADER = struct.Struct("<II")
_HALF = constriction.stream.model.Uniform(1 << 16)
_LEAST_ESCAPE = 1e-6
_NEGLIGIBLE = 1e-15
_TAIL = 60
"""Means of a geometric index after which nothing is left of it."""
_AT_ONCE = 1 << 22


def _index_model(law: Sequence[float] | np.ndarray) -> tuple[constriction.stream.model.Categorical, int]:
    """The coder's model of n indices and the escape, and n."""
    law = np.asarray(law, dtype=np.float64)
    if law.ndim != 1 or not len(law) or not (law >= 0).all() or not law.sum() <= 1 + 1e-6:
        raise ValueError(f"law = {law} is no list of probabilities that sums to at most 1")
    escape = max(1 - law.sum(), _LEAST_ESCAPE)
    return constriction.stream.model.Categorical(np.append(law, escape), perfect=False), len(law)


class TunstallCode:
    """Variable-to-fixed code of a source of independent symbols (Appendix C of the paper).

    probabilities: [n] of the symbols 0, ..., n - 1, n >= 2. k: inner nodes of the tree beside the root;
    they are the optimal draft tree of k tokens, for acceptances by index that are the symbols'
    probabilities in falling order. Every node gets n children; each of the k(n - 1) + n leaves is a
    phrase, and its number the codeword.

        probabilities (.7, .2, .1), k = 1:    root ─┬─ 0 ─┬─ 0    codeword 2
                                                    │     ├─ 1    codeword 3
                                                    │     └─ 2    codeword 4
                                                    ├─ 1          codeword 0
                                                    └─ 2          codeword 1
    """

    def __init__(self, probabilities: Distribution, k: int):
        rates = _single("probabilities", probabilities)
        if len(rates) < 2:
            raise ValueError("probabilities has one symbol; a code needs two at least")
        k = whole("k", k, 0)
        self._symbols = np.argsort(-rates, kind="stable").tolist()
        self._child_index = {symbol: i for i, symbol in enumerate(self._symbols)}
        self._rates = rates[self._symbols]
        self.topology = optimal_topology(self._rates, k) if k else Topology([])
        inner = np.array([len(children) for children in self.topology.children])
        # leaves are numbered node by node; first_leaf[row]: the first one below that node
        self._inner = inner.tolist()
        self._first_leaf = np.concatenate([[0], np.cumsum(len(rates) - inner)]).tolist()
        self.num_codewords = self._first_leaf[-1]
        assert self.num_codewords == k * (len(rates) - 1) + len(rates)

    @property
    def codeword_bits(self) -> int:
        """⌈log(k(n - 1) + n)⌉."""
        return (self.num_codewords - 1).bit_length()

    @property
    def expected_phrase(self) -> float:
        """Symbols of a phrase on average: the tokens of a round in speculative decoding."""
        return theory.expected_tokens(self._rates, self.topology)

    @property
    def rate(self) -> float:
        """Bits a symbol in the long run; at least `entropy`."""
        return self.codeword_bits / self.expected_phrase

    @property
    def entropy(self) -> float:
        """H of the source, bits a symbol."""
        return float(theory.entropy(self._rates))

    def encode(self, symbols: Iterable[int]) -> str:
        """Bits, as text of 0 and 1, of any sequence of symbols, the empty one included.

        The last phrase is filled up to a leaf; how many symbols that took stands in front (Elias gamma).
        ValueError names a symbol that the source does not have.
        """
        row, codewords = 0, []
        for symbol in symbols:
            if symbol not in self._child_index:
                raise ValueError(f"symbol {symbol!r} is not an integer from 0 to {len(self._symbols) - 1}")
            row = self._step(row, self._child_index[symbol], codewords)
        filled = 0
        while row:
            row = self._step(row, len(self._symbols) - 1, codewords)
            filled += 1
        return _elias_gamma(filled + 1) + "".join(f"{word:0{self.codeword_bits}b}" for word in codewords)

    def decode(self, bits: str) -> list[int]:
        """The sequence that `encode` was given; ValueError where `bits` is no output of it."""
        _check_bits(bits)
        filled, start = _read_elias_gamma(bits, 0)
        if (len(bits) - start) % self.codeword_bits:
            raise ValueError(f"{len(bits) - start} bits are no multiple of {self.codeword_bits} a codeword")
        symbols: list[int] = []
        for first in range(start, len(bits), self.codeword_bits):
            symbols += self._phrase(int(bits[first : first + self.codeword_bits], 2))
        if filled - 1 > len(symbols):
            raise ValueError(f"bits fill up {filled - 1} symbols of {len(symbols)}")
        symbols = symbols[: len(symbols) - filled + 1]
        if self.encode(symbols) != bits:
            raise ValueError(f"bits = {bits!r:.40} fill up the last phrase in another way than encode does")
        return symbols

    def _step(self, row: int, child_index: int, codewords: list[int]) -> int:
        """The row below; at a leaf its codeword is noted, and the next phrase starts at the root."""
        beyond = child_index - self._inner[row]
        if beyond < 0:
            return self.topology.children[row][child_index]
        codewords.append(self._first_leaf[row] + beyond)
        return 0

    def _phrase(self, codeword: int) -> list[int]:
        if codeword >= self.num_codewords:
            raise ValueError(f"codeword {codeword} is not below {self.num_codewords}")
        row = int(np.searchsorted(self._first_leaf, codeword, side="right")) - 1
        last = codeword - self._first_leaf[row] + self._inner[row]
        path = [self.topology.child_indices[ancestor] for ancestor in self.topology.ancestors(row)[1:]]
        return [self._symbols[child_index] for child_index in (*path, last)]


def _elias_gamma(value: int) -> str:
    """1 -> 1, 2 -> 010, 3 -> 011, 4 -> 00100: as many zeros as bits follow the leading one."""
    return "0" * (value.bit_length() - 1) + f"{value:b}"


def _read_elias_gamma(bits: str, start: int) -> tuple[int, int]:
    """The value that stands at `start`, and where it ends."""
    first = bits.find("1", start)
    end = 2 * first - start + 1
    if first < 0 or len(bits) < end:
        raise ValueError(f"bits = {bits!r:.40} end within the number that begins at {start}")
    return int(bits[first:end], 2), end


def _check_bits(bits: str) -> None:
    if not isinstance(bits, str) or bits.strip("01"):
        raise ValueError(f"bits = {bits!r:.40} are not a text of 0 and 1")


def _proposal(running_q: np.ndarray, seed: int, position: int, index: int) -> int:
    """Proposal `index`: a sample of q, the same for whoever has the seed."""
    u = uniform(seed, position, index, Stream.PROPOSAL)
    return int(np.searchsorted(running_q, u * running_q[-1], side="right"))


def _race(size: int, seed: int, position: int) -> torch.Tensor:
    return log_exponentials(seed, [position], size, stream=Stream.POISSON)[0]


def _covered_pair(p: Distribution, q: Distribution) -> tuple[np.ndarray, np.ndarray]:
    p, q = (x.cpu().numpy() for x in checked_pair(_single("p", p), _single("q", q)))
    if ((p > 0) & (q == 0)).any():
        token = int(np.flatnonzero((p > 0) & (q == 0))[0])
        raise ValueError(f"q[{token}] is 0 where p is {p[token]}: no proposal can ever be that sample")
    return p, q


def _single(name: str, value: Distribution) -> np.ndarray:
    probs = checked_distribution(name, value)
    if probs.dim() != 1:
        raise ValueError(f"{name} has shape {tuple(probs.shape)}; one distribution [n] is needed")
    return probs.cpu().numpy()


def _checked_index(index: int) -> int:
    if isinstance(index, bool) or not isinstance(index, (int, np.integer)) or not 0 <= index < 1 << 32:
        raise ValueError(f"index = {index!r} is not an integer from 0 to 2**32 - 1")
    return int(index)


def _checked_method(method: Method) -> Method:
    if method not in ENCODERS:
        raise ValueError(f"method = {method!r} is none of {', '.join(ENCODERS)}")
    return method
