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

from collections.abc import Iterable
from enum import IntEnum

import torch
from torch import Tensor

from specdec.checks import integer

_GOLDEN = 0x9E3779B97F4A7C15
_MIX = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_MASK = (1 << 64) - 1
_SHIFTS = (30, 27, 31)
_CPU_BLOCK = 1 << 16  # numbers hashed in one go
_BELOW_ONE = 1 - 2.0**-53  # the largest of 2**53 uniforms would round to one


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
    keys = torch.tensor([_signed(_key(seed, stream, n)) for n in positions], device=device)
    counters = torch.arange(1, vocab_size + 1, device=device) * _signed(_GOLDEN)
    result = torch.empty(len(keys), vocab_size, dtype=torch.float64, device=device)
    # a GPU takes all rows at once; on a CPU the steps of a few rows stay in its cache
    rows = max(1, _CPU_BLOCK // vocab_size) if result.device.type == "cpu" else max(1, len(keys))
    for part, part_keys in zip(result.split(rows), keys.split(rows), strict=True):
        _to_unit(_mix_tensor(part_keys[:, None] + counters), out=part)
        part.neg_().log1p_().neg_().log_()
    return result


def uniform(seed: int, position: int, index: int, stream: Stream = Stream.ACCEPT) -> float:
    """One uniform on (0, 1), keyed by (seed, stream, position, index)."""
    bits = _mix(_key(seed, stream, position) + (index + 1) * _GOLDEN)
    return min(((bits >> 11) + 0.5) * 2.0**-53, _BELOW_ONE)


def log_arrival_times(log_p: Tensor, log_e: Tensor) -> Tensor:
    """log(e / p), elementwise; infinite where p is 0."""
    return log_e - log_p


def winner(log_p: Tensor, log_e: Tensor) -> Tensor:
    """First arrival, int64 [...], of races [..., vocabulary]: a sample of p."""
    return log_arrival_times(log_p, log_e).argmin(-1)


def arrivals(log_q: Tensor, log_e: Tensor, count: int) -> list[list[int]]:
    """The first `count` arrivals of each race [n, vocabulary], in order.

    A sample of q without replacement. A race has only as many arrivals as q has support: its list is
    shorter where that is less than `count`.
    """
    times = log_arrival_times(log_q, log_e)
    if count == 1:  # the most frequent case, and a third of topk's time
        values, indices = times.min(-1, keepdim=True)
    else:
        values, indices = times.topk(min(count, times.shape[-1]), dim=-1, largest=False)
    lists = indices.tolist()
    if values[..., -1].isinf().any():
        finite = values.isfinite().sum(-1).tolist()
        return [tokens[:n] for tokens, n in zip(lists, finite, strict=True)]
    return lists


def checked_seed(seed: int) -> int:
    """The seed as int; ValueError where it is not an integer from 0 to 2**64 - 1."""
    number = integer(seed)
    if number is None or not 0 <= number <= _MASK:
        raise ValueError(f"seed = {seed!r} is not an integer from 0 to 2**64 - 1")
    return number


def derived_seed(seed: int, number: int) -> int:
    """The seed of prompt `number` of a list, so that the prompts of a list do not share races."""
    return _mix(_mix(seed) + (number + 1) * _GOLDEN) >> 1


class Races:
    """The races of one run, drawn in chunks and kept from the first position still in use.

    Rounds overlap: a position that was drafted but not reached is raced again in the next round, and
    drawing a few positions of a small vocabulary in one go costs little more than drawing one.
    """

    def __init__(
        self, seed: int, vocab_size: int, device: torch.device | str = "cpu", stream: Stream = Stream.RACE
    ):
        self.seed, self.vocab_size, self.device, self.stream = seed, vocab_size, device, stream
        self._chunk = max(1, min(8, _CPU_BLOCK // vocab_size))
        self._first = 0
        self._rows = torch.empty(0, vocab_size, dtype=torch.float64, device=device)

    def log_exponentials(self, position: int, count: int = 1) -> Tensor:
        """log e [count, vocabulary] of `count` positions from `position`; earlier ones are forgotten."""
        kept = self._rows[max(position - self._first, 0) :] if position >= self._first else self._rows[:0]
        if len(kept) < count:
            start = position + len(kept)
            wanted = range(start, max(position + count, start + self._chunk))
            new = log_exponentials(self.seed, wanted, self.vocab_size, stream=self.stream, device=self.device)
            kept = torch.cat([kept, new])
        self._rows, self._first = kept, position
        return kept[:count]


def _key(seed: int, stream: int, position: int) -> int:
    return _mix(_mix(_mix(seed) + stream * _GOLDEN) + position * _GOLDEN)


def _mix(state: int) -> int:
    """splitmix64's output function on Python integers."""
    z = state & _MASK
    z = ((z ^ (z >> _SHIFTS[0])) * _MIX[0]) & _MASK
    z = ((z ^ (z >> _SHIFTS[1])) * _MIX[1]) & _MASK
    return z ^ (z >> _SHIFTS[2])


def _mix_tensor(z: Tensor) -> Tensor:
    """The same on int64 tensors, in place: their products wrap around like unsigned ones."""
    for bits, factor in zip(_SHIFTS, _MIX, strict=False):
        z.bitwise_xor_(_shifted(z, bits)).mul_(_signed(factor))
    return z.bitwise_xor_(_shifted(z, _SHIFTS[2]))


def _shifted(z: Tensor, bits: int) -> Tensor:
    """Logical shift to the right: torch's is arithmetic, the mask clears the copies of the sign."""
    return (z >> bits).bitwise_and_((1 << (64 - bits)) - 1)


def _to_unit(bits: Tensor, out: Tensor) -> Tensor:
    """float64 on (0, 1), both ends excluded, from the upper 53 bits."""
    return out.copy_(_shifted(bits, 11)).add_(0.5).mul_(2.0**-53).clamp_max_(_BELOW_ONE)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value
