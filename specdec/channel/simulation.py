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
from collections.abc import Sequence
from enum import IntEnum
from typing import Literal, NamedTuple, get_args

import numpy as np
import torch

from specdec import theory
from specdec.channel.checked import MOST_COUNT, checked_index, checked_key, checked_law
from specdec.channel.codes import decode_indices, encode_indices, zipf_law
from specdec.checks import among, whole
from specdec.race import arrivals, log_exponentials, uniform, winner
from specdec.theory import Distribution
from specdec.theory.divergences import checked_pair
from specdec.theory.gsd_by_index import SortedPair

Method = Literal["greedy_rejection", "poisson_functional"]
METHODS: tuple[Method, ...] = get_args(Method)

MOST_PROPOSALS = 100_000
"""Proposals that greedy rejection sampling tests for one message, a second's work."""


class ChannelStream(IntEnum):
    """Noise of channel simulation, beside the streams of decoding; Alice's tests are hers alone."""

    PROPOSAL = 16
    TEST = 17
    POISSON = 18


class Message(NamedTuple):
    """What Alice chose: the sample of P, and its 0-based index among the shared proposals."""

    index: int  # type: ignore[assignment]  # shadows a method of tuples that nobody needs
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
    seed, position = checked_key(seed, position)
    level, running_q = 0.0, np.cumsum(q)
    for index in range(MOST_PROPOSALS):
        mass = np.maximum(p - level * q, 0).sum()
        x = _proposal(running_q, seed, position, index)
        test = uniform(seed, position, index, ChannelStream.TEST) * mass * q[x]
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
    running_q = np.cumsum(checked_law("q", q))
    return _proposal(running_q, *checked_key(seed, position), checked_index(index))


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
    q = checked_law("q", q)
    index = checked_index(index)
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
    count = whole("count", count, 1, MOST_COUNT)
    p, q = _covered_pair(p, q)
    if (p > _MOST_RATIO * q).any():
        token = int((p > _MOST_RATIO * q).argmax())
        raise ValueError(
            f"q[{token}] = {q[token]} is too small where p is {p[token]}: p / q is above {_MOST_RATIO:g}"
        )
    by_index = {
        "greedy_rejection": (_greedy_rejection_law, theory.gsd_acceptance_by_index),
        "poisson_functional": (_poisson_functional_law, theory.ersd_acceptance_by_index),
    }
    simulation, decoding = by_index[among("method", method, METHODS)]
    given, beyond = simulation(p, q, count)
    tree = decoding(p, q, min(count, len(q))).numpy()
    entropy = max(0.0, _surprise(given) + beyond)
    return IndexLaws(float(theory.kl_divergence(p, q)), given, entropy, tree, theory.entropy_of_rates(tree))


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
        count = whole("count", count, 1, MOST_COUNT)
        p, q = p.expand(count, -1), q.expand(count, -1)
    if p.dim() != 2 or not len(p):
        raise ValueError(f"p has shape {tuple(p.shape)}; [messages, n] is needed, or [n] with a count")
    encode, decode = ENCODERS[among("method", method, METHODS)], DECODERS[method]
    sent = [encode(p[n], q[n], seed, n) for n in range(len(p))]
    kl = float(theory.kl_divergence(p, q).mean())
    law = zipf_law(kl) if law is None else law
    data = encode_indices([message.index for message in sent], law)
    received = decode_indices(data, len(p), law)
    token_ids = tuple(decode(index, q[n], seed, n) for n, index in enumerate(received))
    assert token_ids == tuple(message.token_id for message in sent), "Bob's samples are not Alice's"
    return Transmission(token_ids, tuple(received), data, 8 * len(data) / len(p), kl, _BOUND[method](kl))


_MOST_RATIO = 1e300
_NEGLIGIBLE = 1e-15
_TAIL = 60
"""Means of a geometric index after which nothing is left of it."""
_AT_ONCE = 1 << 22


def _proposal(running_q: np.ndarray, seed: int, position: int, index: int) -> int:
    """Proposal `index`: a sample of q, the same for whoever has the seed."""
    u = uniform(seed, position, index, ChannelStream.PROPOSAL)
    return int(np.searchsorted(running_q, u * running_q[-1], side="right"))


def _race(size: int, seed: int, position: int) -> torch.Tensor:
    return log_exponentials(seed, [position], size, stream=ChannelStream.POISSON)[0]


def _covered_pair(p: Distribution, q: Distribution) -> tuple[np.ndarray, np.ndarray]:
    p, q = (x.cpu().numpy() for x in checked_pair(checked_law("p", p), checked_law("q", q)))
    if ((p > 0) & (q == 0)).any():
        token = int(np.flatnonzero((p > 0) & (q == 0))[0])
        raise ValueError(f"q[{token}] is 0 where p is {p[token]}: no proposal can ever be that sample")
    return p, q
