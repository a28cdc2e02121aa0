"""Exponential races (Section 3 of the paper): winners and arrivals under any distribution.

Every token i of the vocabulary gets an exponential e_i ~ Exp(1). It arrives at e_i / p_i, and the first
arrival is a sample of p. The exponentials of a position are the same under every distribution, which makes
ERSD independent of the drafter.

    HostRace      all exponentials in memory, on a CPU
    DeviceRace    the same on another device
    SparseRace    a large vocabulary on a CPU: only tokens that can still win are computed (`sparse`)

Race arithmetic is in logarithms, log e - log p, where a token with p = 0 arrives at infinity. The uniforms
behind the exponentials are float64: in float32 they tie and cut the tail at 128,000 tokens. They are the same
bits on every device; their logarithms may differ in the last place.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from specdec.race.exponentials import fill
from specdec.race.sparse import SparseRace

LARGE = 1 << 14
"""Larger vocabularies are raced sparsely on a CPU. For smaller ones that would cost as much as it saves."""
FEW = 8
"""Up to this many arrivals of a race on a CPU are found one by one."""


class Arrivals(Protocol):
    """The arrivals that drafting needs: of one race under several distributions, or of one race for each.

    takes_weights: whether arrivals are the same for unnormalised weights, whose logarithm is off by a
    constant in each row.
    """

    @property
    def takes_weights(self) -> bool:
        """Whether unnormalised log-weights may replace log q; see `Arrivals`."""

    def arrivals(self, log_q: Tensor, count: int) -> list[list[int]]:
        """The first `count` arrivals under each row of log_q [n, vocabulary], in order.

        Line 10 of Algorithm 5: a sample of q without replacement. A race has only as many arrivals as q has
        support, so a list may be shorter.
        """


class Race(Arrivals, Protocol):
    """A race at one position."""

    @property
    def exponentials(self) -> Tensor:
        """log e of all tokens, float64 [vocabulary]."""

    def winner(self, log_p: Tensor) -> int:
        """argmin e / p (Section 3) under log_p [vocabulary]: a sample of p."""

    def log_e(self, tokens: Sequence[int]) -> list[float]:
        """log e of these tokens."""


class DeviceRace:
    """A race whose exponentials are all on a device: log e, float64 [vocabulary]."""

    takes_weights = True

    def __init__(self, log_e: Tensor):
        self.exponentials = log_e

    def winner(self, log_p: Tensor) -> int:
        """The token with the smallest e / p under log_p [vocabulary]."""
        return int((self.exponentials - log_p).argmin())

    def arrivals(self, log_q: Tensor, count: int) -> list[list[int]]:
        """The first `count` tokens in the order of e / q, under each row of log_q [n, vocabulary]."""
        return _first_of(self.exponentials.to(log_q.device) - log_q, count)

    def log_e(self, tokens: Sequence[int]) -> list[float]:
        """The log-exponentials of these tokens."""
        return self.exponentials[tokens].tolist()


class HostRace:
    """A race on a CPU, by numpy, whose calls take a sixth of the time of torch's. log_e: [vocabulary]."""

    takes_weights = True

    def __init__(self, log_e: np.ndarray):
        self._log_e = log_e

    @property
    def exponentials(self) -> Tensor:
        """log e of all tokens, float64 [vocabulary]."""
        return torch.from_numpy(self._log_e)

    def log_e(self, tokens: Sequence[int]) -> list[float]:
        """log e of these tokens."""
        return self._log_e[tokens].tolist()

    def winner(self, log_p: Tensor) -> int:
        """The token with the smallest e / p under log_p [vocabulary]."""
        return int((self._log_e - log_p.cpu().numpy()).argmin())

    def arrivals(self, log_q: Tensor, count: int) -> list[list[int]]:
        """The first `count` tokens in the order of e / q, under each row of log_q [n, vocabulary]."""
        times = self._log_e - log_q.cpu().numpy()  # [n, vocabulary]
        if count <= FEW:
            return [_first_few(row, count) for row in times]
        return _first_of(torch.from_numpy(times), count)


class RaceOfEach:
    """The races of several nodes, one race for each: `Arrivals`."""

    def __init__(self, races: Sequence[Race]):
        self._races = races
        self.takes_weights = all(race.takes_weights for race in races)

    def arrivals(self, log_q: Tensor, count: int) -> list[list[int]]:
        """The first `count` tokens in the order of e / q: row i of log_q [n, vocabulary] in race i."""
        each = zip(self._races, log_q, strict=True)
        return [race.arrivals(row[None], count)[0] for race, row in each]


def race_of(log_e: Tensor) -> Race:
    """The race with these log-exponentials (Section 3), [vocabulary], on their own device."""
    return HostRace(log_e.numpy()) if log_e.device.type == "cpu" else DeviceRace(log_e)


def races_of(keys: Sequence[int], vocab_size: int, device: torch.device | str = "cpu") -> list[Race]:
    """A race for each key (Section 3), of the kind that is fastest on this device."""
    on_host = torch.device(device).type == "cpu"
    if on_host and vocab_size > LARGE:
        return [SparseRace(key, vocab_size) for key in keys]
    rows = fill(torch.empty(len(keys), vocab_size, dtype=torch.float64, device=device), keys)
    return list(map(HostRace, rows.numpy())) if on_host else list(map(DeviceRace, rows))


def _first_few(times: np.ndarray, count: int) -> list[int]:
    """The first `count` arrivals of one race; a NaN ends the list. Changes its argument, times [vocabulary].

    One search for each arrival takes a fraction of the time of torch's topk.
    """
    tokens: list[int] = []
    for _ in range(min(count, len(times))):
        token = int(times.argmin())  # the first NaN, if there is one
        if not math.isfinite(times[token]):
            break
        tokens.append(token)
        times[token] = math.inf
    return tokens


def _first_of(log_times: Tensor, count: int) -> list[list[int]]:
    """The first `count` arrivals of each row [n, vocabulary]; a NaN in a row may end its list."""
    count = min(count, log_times.shape[-1])
    # a GPU finds a minimum in a fraction of the time of topk
    times, tokens = log_times.min(-1, True) if count == 1 else log_times.topk(count, largest=False)
    lists = torch.cat([times[:, -1:], tokens], 1).tolist()  # one transfer; float64 holds every token
    return [
        [int(token) for token in tokens[: count if math.isfinite(last) else _arrived(row)]]
        for row, (last, *tokens) in zip(log_times, lists, strict=True)
    ]


def _arrived(log_times: Tensor) -> int:
    """The number of tokens [vocabulary] that arrive; 0 if a time is NaN."""
    return 0 if log_times.isnan().any() else int(log_times.isfinite().sum())
