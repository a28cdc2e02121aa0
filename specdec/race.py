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

import numpy as np
import torch
from torch import Tensor

from specdec import splitmix
from specdec.checks import integer
from specdec.splitmix import GOLDEN, MASK, mix


class Stream(IntEnum):
    """Independent noise for each purpose: GSD must never decide with the noise it drafted with."""

    RACE = 0
    ACCEPT = 1
    RESIDUAL = 2


def log_exponentials(
    seed: int,
    positions: Iterable[int],
    vocab_size: int,
    *,
    stream: Stream = Stream.RACE,
    device: torch.device | str = "cpu",
) -> Tensor:
    """log e, float64 [number of positions, vocab_size], with e ~ Exp(1) keyed by (seed, stream, position)."""
    keys = [_key(seed, stream, position) for position in positions]
    return _fill(torch.empty(len(keys), vocab_size, dtype=torch.float64, device=device), keys)


def _fill(rows: Tensor, keys: Sequence[int]) -> Tensor:
    """Write log e [keys, vocabulary] into `rows`, and return them."""
    vocab_size = rows.shape[-1]
    if rows.device.type != "cpu":
        u = splitmix.uniforms_on(rows.device, keys, vocab_size)
        return rows.copy_(u.neg_().log1p_().neg_().log_())
    for row, key in zip(rows.numpy(), keys, strict=True):
        for part, u in splitmix.blocks(key, vocab_size):
            np.negative(np.log1p(np.negative(u, out=u), out=u), out=u)
            np.log(u, out=row[part])
    return rows


def uniform(seed: int, position: int, index: int, stream: Stream = Stream.ACCEPT) -> float:
    """One uniform on (0, 1), keyed by (seed, stream, position, index)."""
    return splitmix.uniform(_key(seed, stream, position), index)


def log_arrival_times(log_p: Tensor, log_e: Tensor) -> Tensor:
    """log(e / p), elementwise; infinite where p is 0."""
    return log_e - log_p


def winner(log_p: Tensor, log_e: Tensor) -> Tensor:
    """First arrival, int64 [...], of races [..., vocabulary]: a sample of p."""
    if log_p.device.type != "cpu":
        return log_arrival_times(log_p, log_e).argmin(-1)
    p, e = log_p.numpy(), log_e.numpy()  # numpy's argmin takes a sixth of torch's time
    parts = splitmix.parts(p.shape[-1])
    if len(parts) == 1:
        return torch.as_tensor((e - p).argmin(-1))
    tokens, earliest = 0, np.inf
    for part in parts:
        times = e[..., part] - p[..., part]
        least = times.min(-1)
        tokens = np.where(least < earliest, times.argmin(-1) + part.start, tokens)
        earliest = np.minimum(least, earliest)
    return torch.as_tensor(tokens)


def arrivals(log_q: Tensor, log_e: Tensor, count: int) -> list[list[int]]:
    """The first `count` arrivals of each race [n, vocabulary], in order.

    A sample of q without replacement. A race has only as many arrivals as q has support: its list is
    shorter where that is less than `count`.
    """
    if count == 1:  # the most frequent case, and a third of topk's time
        tokens = winner(log_q, log_e)[:, None]
        last = log_q.gather(-1, tokens)[:, 0]
    else:
        times, tokens = _first(log_q, log_e, count)
        last = times[:, -1]
    lists = tokens.tolist()
    if any(map(math.isinf, last.tolist())):
        finite = log_q.isfinite().sum(-1).tolist()
        return [tokens[:n] for tokens, n in zip(lists, finite, strict=True)]
    return lists


def _first(log_q: Tensor, log_e: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Log times and tokens of the first `count` arrivals of each race, [n, count] each."""
    values, indices = [], []
    for part in splitmix.parts(log_q.shape[-1]) if log_q.device.type == "cpu" else [slice(0, None)]:
        times = log_arrival_times(log_q[:, part], log_e[..., part])
        found = times.topk(min(count, times.shape[-1]), largest=False)
        values.append(found.values)
        indices.append(found.indices + part.start)
    if len(values) == 1:
        return values[0], indices[0]
    best = torch.cat(values, -1).topk(min(count, log_q.shape[-1]), largest=False)
    return best.values, torch.cat(indices, -1).gather(-1, best.indices)


def checked_seed(seed: int) -> int:
    """The seed as int; ValueError where it is not an integer from 0 to 2**64 - 1."""
    number = integer(seed)
    if number is None or not 0 <= number <= MASK:
        raise ValueError(f"seed = {seed!r} is not an integer from 0 to 2**64 - 1")
    return number


def derived_seed(seed: int, number: int) -> int:
    """The seed of prompt `number` of a list, so that the prompts of a list do not share races."""
    return mix(mix(seed) + (number + 1) * GOLDEN) >> 1


class Races:
    """The races of one run, kept from the first position still in use.

    Rounds overlap: a position that was drafted but not reached is raced again in the next round.
    """

    def __init__(
        self, seed: int, vocab_size: int, device: torch.device | str = "cpu", stream: Stream = Stream.RACE
    ):
        self.seed, self.vocab_size, self.device, self.stream = seed, vocab_size, device, stream
        # positions from _origin to before _end lie in the rows from 0 on
        self._origin = self._end = 0
        self._rows = torch.empty(0, vocab_size, dtype=torch.float64, device=device)

    def log_exponentials(self, position: int, count: int = 1) -> Tensor:
        """log e [count, vocabulary] of `count` positions from `position`; earlier ones are forgotten.

        A view, valid until a later position is asked for.
        """
        if not self._origin <= position <= self._end or position + count > self._origin + len(self._rows):
            self._slide(position, count)
        if self._end < position + count:
            positions = range(self._end, position + count)
            new = self._rows[self._end - self._origin : position + count - self._origin]
            _fill(new, [_key(self.seed, self.stream, n) for n in positions])
            self._end = position + count
        first = position - self._origin
        return self._rows[first : first + count]

    def _slide(self, position: int, count: int) -> None:
        """Make row 0 that of `position`, in twice the room asked for, so that this is needed seldom."""
        known = self._rows[:0]
        if self._origin <= position <= self._end:
            known = self._rows[position - self._origin : self._end - self._origin][:count]
        if len(self._rows) < 2 * count:
            self._rows = self._rows.new_empty(2 * count, self.vocab_size)
        self._rows[: len(known)] = known
        self._origin, self._end = position, position + len(known)


def _key(seed: int, stream: int, position: int) -> int:
    return mix(mix(mix(seed) + stream * GOLDEN) + position * GOLDEN)
