"""Exponential races (Section 3 of the paper): winners and arrivals under any distribution.

Every token i of the vocabulary gets an exponential e_i ~ Exp(1). It arrives at e_i / p_i, and the first
arrival is a sample of p. The exponentials of a position are the same under every distribution, which makes
ERSD independent of the drafter.

    HostRace      all exponentials in memory, on a CPU
    DeviceRace    all exponentials in memory, on another device
    SparseRace    a large vocabulary on a CPU: only tokens that can still win are computed (`sparse`)

Race arithmetic is in logarithms, log e - log p, where a token with p = 0 arrives at infinity. The uniforms
from which exponentials are made are float64: of 128,000 float32 uniforms some would be equal, and the tail
would be cut off. They have the same bits on every device; their logarithms may differ in the last digit.
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
"""A CPU uses a `SparseRace` for larger vocabularies than this. For smaller ones it would save no time."""
FEW = 8
"""On a CPU, up to this many arrivals of a race are found one by one."""


class Arrivals(Protocol):
    """Finds the first arrivals under each of several distributions q. The distributions share one race, or
    each has its own race. A constant factor on the weights of a row does not change its arrivals."""

    @property
    def exponentials(self) -> Tensor:
        """The logarithm of each token's exponential, float64: [vocabulary] in one race for all distributions,
        [n, vocabulary] in one race for each."""

    def arrivals(self, log_q: Tensor, count: int) -> list[list[int]]:
        """For each row of log_q [n, vocabulary], the first `count` arrivals under q, in order.

        They are a sample of q without replacement (line 10 of the paper's Algorithm 5). Only tokens with q >
        0 arrive, so a list may be shorter.
        """


class Race(Arrivals, Protocol):
    """The race at one position: every token gets an exponential e, and arrives at e / p or e / q."""

    def winner(self, log_p: Tensor) -> int:
        """The token that arrives first, argmin e / p, under log_p [vocabulary]: a sample of p.

        A constant may be added to log_p. If log_p holds NaN or +inf, or no finite value, the result is a
        token at which log_p is not finite.
        """

    def log_e(self, tokens: Sequence[int]) -> list[float]:
        """log e of these tokens, where e is the exponential of a token."""


class DeviceRace:
    """A race with all its exponentials on a device. log_e: their logarithms, float64 [vocabulary]."""

    def __init__(self, log_e: Tensor):
        self.exponentials = log_e

    def winner(self, log_p: Tensor) -> int:
        """The token with the smallest e / p under log_p [vocabulary]."""
        return int((self.exponentials - log_p).argmin())

    def arrivals(self, log_q: Tensor, count: int) -> list[list[int]]:
        """For each row of log_q [n, vocabulary], the first `count` tokens in the order of e / q."""
        return orders_of(first_of(self.exponentials.to(log_q.device) - log_q, count))

    def log_e(self, tokens: Sequence[int]) -> list[float]:
        """log e of these tokens, where e is the exponential of a token."""
        return self.exponentials[tokens].tolist()


class HostRace:
    """A race on a CPU. It uses numpy, which takes a sixth of torch's time. log_e: as in `DeviceRace`."""

    def __init__(self, log_e: np.ndarray):
        self._log_e = log_e

    @property
    def exponentials(self) -> Tensor:
        """The logarithm of each token's exponential in this race, float64 [vocabulary]."""
        return torch.from_numpy(self._log_e)

    def log_e(self, tokens: Sequence[int]) -> list[float]:
        """log e of these tokens, where e is the exponential of a token."""
        return self._log_e[tokens].tolist()

    def winner(self, log_p: Tensor) -> int:
        """The token with the smallest e / p under log_p [vocabulary]."""
        return int((self._log_e - log_p.cpu().numpy()).argmin())

    def arrivals(self, log_q: Tensor, count: int) -> list[list[int]]:
        """For each row of log_q [n, vocabulary], the first `count` tokens in the order of e / q."""
        times = self._log_e - log_q.cpu().numpy()  # [n, vocabulary]
        if count <= FEW:
            return [_first_few(row, count) for row in times]
        return orders_of(first_of(torch.from_numpy(times), count))


class RaceOfEach:
    """The `Arrivals` of several nodes that have one race each."""

    def __init__(self, races: Sequence[Race]):
        self._races = races

    @property
    def exponentials(self) -> Tensor:
        """The logarithm of each token's exponential in the race of each node, float64 [n, vocabulary]."""
        return torch.stack([race.exponentials for race in self._races])

    def arrivals(self, log_q: Tensor, count: int) -> list[list[int]]:
        """For each i, the first `count` tokens in the order of e / q, with race i and row i of log_q."""
        each = zip(self._races, log_q, strict=True)
        return [race.arrivals(row[None], count)[0] for race, row in each]


def race_of(log_e: Tensor) -> Race:
    """The race with these logarithms of exponentials, [vocabulary], on the device that holds them."""
    return HostRace(log_e.numpy()) if log_e.device.type == "cpu" else DeviceRace(log_e)


def races_of(keys: Sequence[int], vocab_size: int, device: torch.device | str = "cpu") -> list[Race]:
    """One race per key (Section 3 of the paper), of the class that is fastest on this device."""
    on_host = torch.device(device).type == "cpu"
    if on_host and vocab_size > LARGE:
        return [SparseRace(key, vocab_size) for key in keys]
    rows = fill(torch.empty(len(keys), vocab_size, dtype=torch.float64, device=device), keys)
    return list(map(HostRace, rows.numpy())) if on_host else list(map(DeviceRace, rows))


def _first_few(times: np.ndarray, count: int) -> list[int]:
    """The first `count` arrivals of one race; none if a time is NaN. Overwrites `times` [vocabulary].

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


def first_of(log_times: Tensor, count: int) -> Tensor:
    """The first `count` arrivals in each row of log times [n, vocabulary]: log times and tokens, float64
    [n, 2, count]. The host does not wait for a GPU."""
    count = min(count, log_times.shape[-1])
    # for one arrival, a GPU finds the minimum in a fraction of the time of topk
    times, tokens = log_times.min(-1, True) if count == 1 else log_times.topk(count, largest=False)
    return torch.stack([times, tokens.double()], 1)  # float64 holds every token


def orders_of(first: Tensor) -> list[list[int]]:
    """The tokens of each row of `first_of`, read in one transfer. Tokens that never arrive, and tokens whose
    time is NaN, are left out."""
    return [
        [int(token) for time, token in zip(times, tokens, strict=True) if time < math.inf]
        for times, tokens in first.tolist()
    ]
