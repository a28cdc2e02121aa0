"""The two relatives of speculative decoding in information theory, as codecs (Section 4 of the paper).

In channel simulation Alice knows P and Q, and Bob knows Q. A shared seed gives both the same proposals from
Q. Alice sends the index of a proposal that is a sample of P, in about D_KL[P || Q] bits.

Greedy rejection sampling tests the proposals one by one, as GSD tests the children of a batch, but proposals
are drawn with replacement. The Poisson functional representation takes the winner of the race under P; its
index is its place in the race under Q, as in ERSD.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

import numpy as np
import torch

from specdec import theory
from specdec.channel.checked import (
    METHODS,
    MOST_COUNT,
    Method,
    checked_index,
    checked_key,
    covered_pair,
    one_distribution,
)
from specdec.channel.codes import decode_indices, encode_indices, zipf_distribution
from specdec.checks import among, whole
from specdec.race import Race, log_exponentials, race_of, uniform
from specdec.theory import Distribution
from specdec.theory.divergences import checked_pair

MOST_PROPOSALS = 100_000
"""Most proposals that greedy rejection sampling tests for one message. Testing all of them takes about a
second."""


class ChannelStream(IntEnum):
    """Streams of noise for channel simulation. They are independent of those of decoding. Only Alice uses
    TEST."""

    PROPOSAL = 16
    TEST = 17
    POISSON = 18


class Message(NamedTuple):
    """Alice's sample of P, and its 0-based index among the shared proposals."""

    index: int  # type: ignore[assignment]  # it hides a method of tuples, which is not needed here
    token_id: int


def greedy_rejection_encode(p: Distribution, q: Distribution, seed: int, position: int = 0) -> Message:
    """Greedy rejection sampling (Harsha et al., 2010; Section 4): the first accepted proposal.

    p, q: [n]. position: number of the message. Proposal x is accepted with probability max(P_x - λQ_x, 0) /
    (S Q_x), where S = Σ max(P - λQ, 0), and λ grows by S at each rejection. These are GSD's tests, but no
    token leaves Q. On average max p/q proposals are tested. ValueError if p or q is not a distribution, q is
    0 where p is not, or none of the first `MOST_PROPOSALS` is accepted.
    """
    p, q = covered_pair(p, q)
    seed, position = checked_key(seed, position)
    level, running_q = 0.0, np.cumsum(q)
    for index in range(MOST_PROPOSALS):
        mass = np.maximum(p - level * q, 0).sum()
        x = _proposal(running_q, seed, position, index)
        test = uniform(seed, position, index, ChannelStream.TEST) * mass * q[x]
        # no mass is left only by rounding errors: all of P has been given out
        if test < p[x] - level * q[x] or mass <= 0:
            return Message(index, x)
        level += mass
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        most = np.nanmax(p / q)
    raise ValueError(
        f"none of the first {MOST_PROPOSALS:,} proposals is accepted: the largest p / q is {most:.3g}, and "
        f"that many are tested on average; the index of poisson_functional is always below {len(p)}"
    )


def greedy_rejection_decode(index: int, q: Distribution, seed: int, position: int = 0) -> int:
    """Bob's copy of Alice's sample: the shared proposal with that index (Section 4)."""
    running_q = np.cumsum(one_distribution("q", q))
    return _proposal(running_q, *checked_key(seed, position), checked_index(index))


def poisson_functional_encode(p: Distribution, q: Distribution, seed: int, position: int = 0) -> Message:
    """Poisson functional representation (Li and El Gamal, 2018; Section 4) by one race over all tokens.

    The sample is the winner of the race under P, and the index is its place in the race under Q. A repeated
    proposal can never win and is not counted, so that the index is ERSD's child index.
    """
    p, q = covered_pair(p, q)
    race = _race(len(p), seed, position)
    log_p, log_q = torch.from_numpy(p).log(), torch.from_numpy(q).log()
    token_id = race.winner(log_p)
    times = race.exponentials - log_q
    return Message(int((times < times[token_id]).sum()), token_id)


def poisson_functional_decode(index: int, q: Distribution, seed: int, position: int = 0) -> int:
    """Bob's copy of Alice's sample: the arrival with that index in the race under Q (Section 4)."""
    q = one_distribution("q", q)
    index = checked_index(index)
    order = _race(len(q), seed, position).arrivals(torch.from_numpy(q).log()[None], index + 1)[0]
    if index >= len(order):
        raise ValueError(f"index = {index}, but the race under q has {len(order)} arrivals")
    return order[index]


ENCODERS = {"greedy_rejection": greedy_rejection_encode, "poisson_functional": poisson_functional_encode}
DECODERS = {"greedy_rejection": greedy_rejection_decode, "poisson_functional": poisson_functional_decode}
_BOUND = {
    "greedy_rejection": theory.greedy_rejection_entropy_bound,
    "poisson_functional": theory.pfr_entropy_bound,
}


class Transmission(NamedTuple):
    """The samples that Bob received, and the bits per message that they cost.

    token_ids: samples of P, the same as Alice's. indices, data: the indices that were sent, and their code.
    bits: 8 · len(data) / messages. kl: mean D_KL[P || Q]. bound: upper bound of the index's entropy.
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
    distribution: Sequence[float] | np.ndarray | None = None,
) -> Transmission:
    """Channel simulation (Section 1): Alice sends Bob samples of P, one per message.

    p, q: [messages, n], or [n] with a count of messages. distribution: probabilities by index for the range
    code, known to both; by default `zipf_distribution` of the mean D_KL. Bob uses only q, the seed, the
    distribution and the data. ValueError as for the encoder of the method.
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
    distribution = zipf_distribution(kl) if distribution is None else distribution
    data = encode_indices([message.index for message in sent], distribution)
    received = decode_indices(data, len(p), distribution)
    token_ids = tuple(decode(index, q[n], seed, n) for n, index in enumerate(received))
    assert token_ids == tuple(message.token_id for message in sent), "Bob receives Alice's samples"
    return Transmission(token_ids, tuple(received), data, 8 * len(data) / len(p), kl, _BOUND[method](kl))


def _proposal(running_q: np.ndarray, seed: int, position: int, index: int) -> int:
    """The shared proposal number `index`: a sample of q."""
    u = uniform(seed, position, index, ChannelStream.PROPOSAL)
    return int(np.searchsorted(running_q, u * running_q[-1], side="right"))


def _race(size: int, seed: int, position: int) -> Race:
    return race_of(log_exponentials(seed, [position], size, stream=ChannelStream.POISSON)[0])
