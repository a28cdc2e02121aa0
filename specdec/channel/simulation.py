"""Two methods of channel simulation, relatives of GSD and ERSD, as codecs (Section 4 of the paper).

In channel simulation Alice knows P and Q, and Bob knows Q. From a shared seed both draw the same proposals,
from Q. Alice sends the index of a proposal that is a sample of P, in about D_KL[P || Q] bits.

Greedy rejection sampling tests the proposals one by one, as GSD tests the children of a batch, but proposals
are drawn with replacement. The Poisson functional representation takes the winner of the race under P. The
index is the place of this winner in the race under Q, as in ERSD.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np
import torch

from specdec.channel.checked import checked_index, checked_key, covered_pair, one_distribution
from specdec.race import Race, log_exponentials, race_of, uniform
from specdec.theory import Distribution

MOST_PROPOSALS = 100_000
"""The most proposals that greedy rejection sampling tests for one message. This many take about a second."""


class ChannelStream(IntEnum):
    """The purposes of the codecs' random numbers, which are independent of decoding's. PROPOSAL, TEST: the
    proposals of greedy rejection sampling and Alice's tests. POISSON: the race of the Poisson functional
    representation."""

    PROPOSAL = 16
    TEST = 17
    POISSON = 18


class Message(NamedTuple):
    """Alice's sample of P, and the 0-based index of this sample among the shared proposals."""

    index: int  # type: ignore[assignment]  # it hides a method of tuples, which is not needed here
    token_id: int


def greedy_rejection_encode(p: Distribution, q: Distribution, seed: int, position: int = 0) -> Message:
    """The first proposal that greedy rejection sampling accepts (Harsha et al., 2010).

    p, q: [n]. position: the number of the message. Proposal x is accepted with probability max(p_x - λq_x, 0)
    / (S q_x), where S = Σ max(p - λq, 0). λ is 0 at first, and grows by S at each rejection. GSD makes the
    same tests, but removes rejected tokens from q. On average, max p/q proposals are tested. ValueError if p
    or q is not a distribution, q is 0 where p is not, or none of the first `MOST_PROPOSALS` is accepted.
    """
    p, q = covered_pair(p, q)
    seed, position = checked_key(seed, position)
    level, running_q = 0.0, np.cumsum(q)
    for index in range(MOST_PROPOSALS):
        mass = np.maximum(p - level * q, 0).sum()
        x = _proposal(running_q, seed, position, index)
        test = uniform(seed, position, index, ChannelStream.TEST) * mass * q[x]
        # the mass is 0 only by rounding, after earlier proposals have used up all of P
        if test < p[x] - level * q[x] or mass <= 0:
            return Message(index, x)
        level += mass
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        most = np.nanmax(p / q)
    raise ValueError(
        f"none of the first {MOST_PROPOSALS:,} proposals is accepted: on average max p / q = {most:.3g} are "
        f"tested; use poisson_functional, whose index is always below {len(p)}"
    )


def greedy_rejection_decode(index: int, q: Distribution, seed: int, position: int = 0) -> int:
    """Bob's copy of Alice's sample: the shared proposal with this index (Section 4 of the paper)."""
    running_q = np.cumsum(one_distribution("q", q))
    return _proposal(running_q, *checked_key(seed, position), checked_index(index))


def poisson_functional_encode(p: Distribution, q: Distribution, seed: int, position: int = 0) -> Message:
    """Alice's message by the Poisson functional representation (Li and El Gamal, 2018), in one race.

    The sample is the token that arrives first under P. The index is the place of this token in the order of
    arrival under Q. A repeated proposal can never win and is not counted. Therefore the index is ERSD's child
    index.
    """
    p, q = covered_pair(p, q)
    race = _race(len(p), seed, position)
    log_p, log_q = torch.from_numpy(p).log(), torch.from_numpy(q).log()
    token_id = race.winner(log_p)
    times = race.exponentials - log_q
    return Message(int((times < times[token_id]).sum()), token_id)


def poisson_functional_decode(index: int, q: Distribution, seed: int, position: int = 0) -> int:
    """Bob's copy of Alice's sample: the token that arrives under Q after `index` other tokens (Section 4).
    ValueError if fewer tokens arrive."""
    q = one_distribution("q", q)
    index = checked_index(index)
    order = _race(len(q), seed, position).arrivals(torch.from_numpy(q).log()[None], index + 1)[0]
    if index >= len(order):
        raise ValueError(f"index = {index}, but the race under q has {len(order)} arrivals")
    return order[index]


ENCODERS = {"greedy_rejection": greedy_rejection_encode, "poisson_functional": poisson_functional_encode}
DECODERS = {"greedy_rejection": greedy_rejection_decode, "poisson_functional": poisson_functional_decode}


def _proposal(running_q: np.ndarray, seed: int, position: int, index: int) -> int:
    """Proposal number `index`, a sample of q that both sides can draw."""
    u = uniform(seed, position, index, ChannelStream.PROPOSAL)
    return int(np.searchsorted(running_q, u * running_q[-1], side="right"))


def _race(size: int, seed: int, position: int) -> Race:
    return race_of(log_exponentials(seed, [position], size, stream=ChannelStream.POISSON)[0])
