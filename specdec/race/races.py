"""Position-keyed exponential races (Section 3 of the paper).

Every token i of the vocabulary gets an exponential e_i ~ Exp(1); it arrives at e_i / p_i, and the first
arrival is a sample of p. The exponentials are a function of (seed, stream, position) alone: whoever
races at a position, under whatever distribution, races on the same ones. That is what makes ERSD
independent of the drafter.

Noise comes from splitmix64 run as a counter-based hash, so that any position can be drawn by itself, from
the same bits on every device (their logarithms may differ in the last place). Uniforms are float64: in
float32 they tie and cut the tail at 128k tokens.
Race arithmetic is in logarithms: log e - log p, where p = 0 arrives at infinity.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from enum import IntEnum
from itertools import repeat

import numpy as np
import torch
from torch import Tensor

from specdec.checks import integer, whole
from specdec.race import splitmix
from specdec.race.sparse import SparseRace, log_exponential
from specdec.race.splitmix import GOLDEN, MASK, mix

LARGE = 1 << 14
"""Vocabularies above this are raced sparsely on a CPU; below it, that costs as much as it saves."""
FEW = 4
"""Up to so many arrivals of a race on a CPU are looked for one by one."""


Noise = Tensor | Sequence[SparseRace]
"""The races of some positions: log e [positions, vocabulary], or sparse ones."""
Race = Tensor | SparseRace | Sequence[SparseRace]
"""One race, log e [vocabulary] or sparse; or one for each node, log e [nodes, vocabulary] or sparse ones."""


class Stream(IntEnum):
    """Independent noise for each purpose: GSD must never decide with the noise it drafted with.

    AGAIN: of tokens that go on arriving, `specdec.race.draws`. ROUND: seeds of a round's nodes,
    `specdec.race.nodes`.
    """

    RACE = 0
    ACCEPT = 1
    RESIDUAL = 2
    AGAIN = 3
    ROUND = 4


def log_exponentials(
    seed: int,
    positions: Iterable[int],
    vocab_size: int,
    *,
    stream: int = Stream.RACE,
    device: torch.device | str = "cpu",
) -> Tensor:
    """log e, float64 [number of positions, vocab_size], with e ~ Exp(1) keyed by (seed, stream, position).

    The exponentials of Section 3, and lines 5 to 7 of Algorithm 5. ValueError names a seed or a position
    that is no integer of 64 bits.
    """
    seed = checked_seed(seed)
    keys = [key_of(seed, stream, whole("position", position, 0, MASK)) for position in positions]
    return fill(torch.empty(len(keys), vocab_size, dtype=torch.float64, device=device), keys)


def fill(rows: Tensor, keys: Sequence[int]) -> Tensor:
    """Write log e [keys, vocabulary] (Section 3) into `rows`, and return them."""
    vocab_size = rows.shape[-1]
    if rows.device.type != "cpu":
        there = splitmix.uniforms_on(rows.device, keys, vocab_size)  # [keys, vocabulary]
        return rows.copy_(there.neg_().log1p_().neg_().log_())
    on_host = rows.numpy()  # [keys, vocabulary], the same memory
    for some, part, u in splitmix.blocks(keys, vocab_size):
        on_host[some, part] = log_exponential(u)
    return rows


def uniform(seed: int, position: int, index: int, stream: int = Stream.ACCEPT) -> float:
    """Uniform(0, 1) of Algorithm 4, both ends excluded, keyed by (seed, stream, position, index)."""
    return splitmix.uniform(key_of(seed, stream, position), index)


def log_arrival_times(log_p: Tensor, log_e: Tensor) -> Tensor:
    """log(e / p) of Section 3, elementwise; infinite where p is 0."""
    return log_e - log_p


def winner(log_p: Tensor, log_e: Tensor | SparseRace) -> Tensor:
    """argmin e / p (Section 3), int64 [...], of races [..., vocabulary]: a sample of p.

    A sparse race is one race.
    """
    if isinstance(log_e, SparseRace):
        return torch.as_tensor(log_e.first(log_p.numpy())[1][0])
    if log_p.device.type != "cpu":
        return log_arrival_times(log_p, log_e).argmin(-1)
    return torch.as_tensor((log_e.numpy() - log_p.numpy()).argmin(-1))  # a sixth of torch's time


def arrivals(log_q: Tensor, log_e: Race, count: int) -> list[list[int]]:
    """The first `count` arrivals of each race [n, vocabulary], in order; a single race is that of all n.

    Line 10 of Algorithm 5: a sample of q without replacement. A race has only as many arrivals as q has
    support: its list is shorter where that is less than `count`. A constant in all of a row's log q changes
    nothing.
    """
    if not isinstance(log_e, Tensor):
        races = repeat(log_e) if isinstance(log_e, SparseRace) else log_e
        rows = log_q.cpu().numpy()  # the draft may be elsewhere
        firsts = (race.first(row, count) for race, row in zip(races, rows, strict=False))
        return [tokens[np.isfinite(times)].tolist() for times, tokens in firsts]
    if log_q.device.type == "cpu" and count <= FEW:
        return [_first_few(times, count) for times in log_e.numpy() - log_q.numpy()]
    times, tokens = log_arrival_times(log_q, log_e).topk(min(count, log_q.shape[-1]), largest=False)
    lists = tokens.tolist()
    if any(map(math.isinf, times[:, -1].tolist())):
        finite = log_q.isfinite().sum(-1).tolist()
        return [tokens[:n] for tokens, n in zip(lists, finite, strict=True)]
    return lists


def _first_few(times: np.ndarray, count: int) -> list[int]:
    """The first `count` arrivals of one race [vocabulary], whose times are lost; none where one is NaN.

    One look for each arrival: for few of them, a fraction of the time that torch's topk takes.
    """
    found: list[int] = []
    for _ in range(min(count, len(times))):
        token = int(times.argmin())  # the first NaN, where there is one
        if not math.isfinite(times[token]):
            break
        found.append(token)
        times[token] = math.inf
    return found


def checked_seed(seed: int) -> int:
    """The seed as int; ValueError where it is not an integer from 0 to 2**64 - 1. Beside the paper."""
    number = integer(seed)
    if number is None or not 0 <= number <= MASK:
        raise ValueError(f"seed = {seed!r} is not an integer from 0 to 2**64 - 1")
    return number


def derived_seed(seed: int, number: int) -> int:
    """The seed of prompt `number` of a list, so that the prompts of a list do not share races.

    Beside the paper, which draws anew wherever it draws.
    """
    return mix(mix(seed) + (number + 1) * GOLDEN) >> 1


class Races:
    """The races of one run, kept from the first position still in use.

    Rounds overlap: a position that was drafted but not reached is raced again in the next round.
    """

    def __init__(self, seed: int, vocab_size: int, device: torch.device | str = "cpu"):
        self.seed, self.vocab_size, self.device = seed, vocab_size, device
        # positions from _origin to before _end lie in the rows from 0 on
        self._origin = self._end = 0
        self._rows = torch.empty(0, vocab_size, dtype=torch.float64, device=device)
        self._sparse: dict[int, SparseRace] = {}

    def at(self, position: int, count: int = 1) -> Noise:
        """The races of `count` positions from `position`, as `winner` and `arrivals` take them one by one.

        log e [count, vocabulary], or sparse ones. Valid until a later position is asked for; earlier ones
        are forgotten.
        """
        if torch.device(self.device).type != "cpu" or self.vocab_size <= LARGE:
            return self.log_exponentials(position, count)
        known, self._sparse = self._sparse, {}
        for n in range(position, position + count):
            self._sparse[n] = known.get(n) or SparseRace(self._key(n), self.vocab_size)
        return list(self._sparse.values())

    def log_exponentials(self, position: int, count: int = 1) -> Tensor:
        """log e [count, vocabulary] of `count` positions from `position`; earlier ones are forgotten.

        A view, valid until a later position is asked for.
        """
        if not self._origin <= position <= self._end or position + count > self._origin + len(self._rows):
            self._slide(position, count)
        if self._end < position + count:
            positions = range(self._end, position + count)
            new = self._rows[self._end - self._origin : position + count - self._origin]
            fill(new, [self._key(n) for n in positions])
            self._end = position + count
        first = position - self._origin
        return self._rows[first : first + count]

    def _key(self, position: int) -> int:
        return key_of(self.seed, Stream.RACE, position)

    def _slide(self, position: int, count: int) -> None:
        """Make row 0 that of `position`, in twice the room asked for, so that this is needed seldom."""
        known = self._rows[:0]
        if self._origin <= position <= self._end:
            known = self._rows[position - self._origin : self._end - self._origin][:count]
        if len(self._rows) < 2 * count:
            self._rows = self._rows.new_empty(2 * count, self.vocab_size)
        self._rows[: len(known)] = known
        self._origin, self._end = position, position + len(known)


def key_of(seed: int, stream: int, position: int) -> int:
    """The key of all noise of (seed, stream, position), for the generator in `splitmix` (Section 3)."""
    return mix(mix(mix(seed) + stream * GOLDEN) + position * GOLDEN)
