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
    checked_law,
    covered_pair,
)
from specdec.channel.codes import decode_indices, encode_indices, zipf_law
from specdec.checks import among, whole
from specdec.race import Race, log_exponentials, race_of, uniform
from specdec.theory import Distribution
from specdec.theory.divergences import checked_pair

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
    p, q = covered_pair(p, q)
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
    p, q = covered_pair(p, q)
    race = _race(len(p), seed, position)
    log_p, log_q = torch.from_numpy(p).log(), torch.from_numpy(q).log()
    token_id = race.winner(log_p)
    times = race.exponentials - log_q
    return Message(int((times < times[token_id]).sum()), token_id)


def poisson_functional_decode(index: int, q: Distribution, seed: int, position: int = 0) -> int:
    """Alice's sample, from the index alone: that arrival in the race under Q (Section 4)."""
    q = checked_law("q", q)
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


def _proposal(running_q: np.ndarray, seed: int, position: int, index: int) -> int:
    """Proposal `index`: a sample of q, the same for whoever has the seed."""
    u = uniform(seed, position, index, ChannelStream.PROPOSAL)
    return int(np.searchsorted(running_q, u * running_q[-1], side="right"))


def _race(size: int, seed: int, position: int) -> Race:
    return race_of(log_exponentials(seed, [position], size, stream=ChannelStream.POISSON)[0])
