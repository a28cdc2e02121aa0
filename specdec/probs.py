"""Turns logits into the probabilities for drafting and verification.

P and Q go through the same steps: restriction to the shared vocabulary, temperature, top-k, top-p, and a
softmax in float32 or float64. (In half precision, the softmax would round the tail of a large vocabulary to
zero.) Results are log-probabilities, because races compare `log e - log p`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from specdec.checks import integer, real
from specdec.devices import READ_LATE

_NUCLEUS_GUESS = 1024
"""Top-p first searches this many tokens, because a full sort of 128k tokens takes about ten times as long."""

HOTTEST = 100
"""The largest temperature."""
_COLD = 0.1
"""Below this temperature, logits are divided in float64. The log-probabilities become so large that
normalising them in float32 would change the values on which the race was run."""
_COLDEST = 1e-10
"""Lower temperatures count as this one. Even larger log-probabilities would lose the race's noise to
rounding."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """The settings with which logits become probabilities.

    temperature: 0 is greedy (all mass on the argmax). Values above 0 and below 1e-10 count as 1e-10.
    top_k: keep the k most probable tokens; 0 or None keeps all.
    top_p: keep the most probable tokens until their mass reaches p; 1.0 or None keeps all.
    Tokens with the same probability as the last token that is kept are kept too. ValueError names a value
    that is out of range.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0

    def __post_init__(self) -> None:
        temperature = real(self.temperature)
        given: Any = self  # None is accepted too
        top_k = 0 if given.top_k is None else integer(given.top_k)
        top_p = 1.0 if given.top_p is None else real(given.top_p)
        if temperature is None or not 0 <= temperature <= HOTTEST:
            raise ValueError(
                f"temperature = {self.temperature!r} is not a number from 0 (greedy) to {HOTTEST}"
            )
        if top_k is None or top_k < 0:
            raise ValueError(f"top_k = {self.top_k!r} is not an integer of at least 0 (off)")
        if top_p is None or not 0 < top_p <= 1:
            raise ValueError(f"top_p = {self.top_p!r} is not a number above 0 and at most 1 (off)")
        for name, value in (("temperature", temperature), ("top_k", top_k), ("top_p", top_p)):
            object.__setattr__(self, name, value)  # plain numbers: records hold them

    @property
    def keeps_all(self) -> bool:
        """Whether every token keeps a probability above 0."""
        return self.temperature > 0 and self.top_k == 0 and self.top_p == 1


_UNCHANGED = Sampling()
"""Settings that change no probability. They are made once: checking them takes as long as a softmax."""


def log_probs(
    logits: Tensor, sampling: Sampling, vocab_size: int | None = None, check: bool = True
) -> Tensor:
    """Log-probabilities [..., vocab_size] of logits [..., at least vocab_size].

    vocab_size: the number of tokens that draft and target share. Logits beyond it are padding, and are cut
    off before the softmax. The result is float32, or float64 if the logits are float64 or the temperature is
    below 0.1. check: whether a row with NaN or +inf, or of -inf only, raises a ValueError; the host waits for
    a GPU to check this. Without a check, the result for this row is NaN.
    """
    logits = _shared(logits, vocab_size)
    greedy = sampling.temperature == 0
    result = _greedy(logits) if greedy else torch.log_softmax(_tempered(logits, sampling.temperature), -1)
    if check:
        _check_finite(result)
    if greedy:
        return result
    if 0 < sampling.top_k < result.shape[-1]:
        cutoff = result.topk(sampling.top_k, -1).values[..., -1:]
        result = _cut(result, cutoff)
    if sampling.top_p < 1:
        result = _cut(result, _nucleus_cutoff(result, sampling.top_p))
    return result


def log_weights(logits: Tensor, sampling: Sampling, vocab_size: int | None = None) -> Tensor | None:
    """`log_probs` without the normalisation, which no race needs; faster, and without a check.

    A softmax of these weights gives exactly `log_probs`, because both divide by the temperature in the same
    way. None if top-k or top-p is on, because they need the probabilities.
    """
    return _tempered(_shared(logits, vocab_size), sampling.temperature) if sampling.keeps_all else None


def _check_finite(log_p: Tensor) -> None:
    """ValueError if the logits of a row of log_p [..., vocabulary] held NaN or +inf, or were all -inf.

    Each of these makes all log-probabilities of the row NaN, so one entry per row is checked.
    """
    entries = log_p[..., 0]
    # if no entry is +inf, only a NaN makes the sum NaN
    if math.isnan(entries.sum() if entries.dim() else entries):
        raise broken_logits()


def broken_logits() -> ValueError:
    """The error for logits that define no distribution."""
    return ValueError(
        "logits hold NaN, +inf or no finite value: the model may be broken, its dtype too narrow (try "
        "float32), or a logits processor may exclude every token"
    )


class LazyLogProbs(Sequence[Any]):
    """Log-probabilities by row, computed on first access, because verification visits few rows.

    logits: for each row, [at least vocab_size]; None for a row without logits, whose log-probabilities are
    None. raced: the `race_weights` of some rows, which were already computed for a race.
    """

    def __init__(
        self,
        logits: Sequence[Tensor | None] | Tensor,
        sampling: Sampling,
        vocab_size: int,
        raced: Mapping[int, Tensor] | None = None,
    ):
        self._logits, self._sampling, self._vocab_size = logits, sampling, vocab_size
        self._rows: dict[int, Any] = {}
        self._weights: dict[int, Any] = {}
        (self._weights if sampling.keeps_all else self._rows).update(raced or {})

    def __getitem__(self, row: Any) -> Any:
        if row not in self._rows:
            logits = self._logits[row]
            if logits is None:
                self._rows[row] = None
            elif row in self._weights:
                self._rows[row] = log_probs(self._weights[row], _UNCHANGED)
            elif logits.device.type == "cpu" or not isinstance(self._logits, Tensor):
                self._rows[row] = log_probs(logits, self._sampling, self._vocab_size)
            else:  # a GPU computes all rows in the time of one
                self._rows |= enumerate(log_probs(self._logits, self._sampling, self._vocab_size))
        return self._rows[row]

    def __len__(self) -> int:
        return len(self._logits)

    def weights(self, row: int) -> Any:
        """See `race_weights`."""
        logits = self._logits[row]
        if row not in self._weights:
            if logits is None or logits.device.type != "cpu" or not self._sampling.keeps_all:
                return self[row]
            self._weights[row] = log_weights(logits, self._sampling, self._vocab_size)
        return self._weights[row]

    def launched(self) -> Tensor | None:
        """Launches all rows [n, vocabulary] on a GPU without waiting for it; rows of broken logits become
        NaN. None on a CPU, where each row is computed and checked on first access."""
        logits = self._logits
        if not isinstance(logits, Tensor) or logits.device.type not in READ_LATE:
            return None
        rows = log_probs(logits, self._sampling, self._vocab_size, check=False)
        self._rows |= enumerate(rows)
        return rows


def race_weights(log_p: Sequence[Any], row: int) -> Any:
    """Log-weights [vocabulary] for the race of this row: log_p[row], perhaps plus a constant, because no race
    needs the normalisation. They are not checked. None if log_p[row] is None."""
    return log_p.weights(row) if isinstance(log_p, LazyLogProbs) else log_p[row]


def _shared(logits: Tensor, vocab_size: int | None) -> Tensor:
    size = logits.shape[-1]
    if vocab_size is not None and size != vocab_size:
        if size < vocab_size:
            raise ValueError(
                f"a model gave {size:,} logits for a token; its vocabulary has {vocab_size:,} tokens"
            )
        logits = logits[..., :vocab_size]
    return logits if logits.dtype in (torch.float32, torch.float64) else logits.float()


def _tempered(logits: Tensor, temperature: float) -> Tensor:
    if temperature == 1:
        return logits
    if temperature < _COLD:
        logits = logits.double()
    # The distance to the maximum is divided, so that rounding keeps equal logits equal.
    return (logits - logits.amax(-1, keepdim=True)).div_(max(temperature, _COLDEST))


def _greedy(logits: Tensor) -> Tensor:
    largest, token = logits.max(-1, keepdim=True)
    result = torch.full_like(logits, -math.inf).scatter_(-1, token, 0.0)
    return result.add_(largest * 0)  # NaN if the largest logit is not finite


def _nucleus_cutoff(log_p: Tensor, top_p: float) -> Tensor:
    """The smallest log-probability that top-p keeps: the tokens above it have a mass below top_p."""
    values = _most_probable(log_p, top_p)
    probs = values.exp()
    mass_before = probs.cumsum(-1) - probs
    count = (mass_before < top_p).sum(-1, keepdim=True)
    return values.gather(-1, (count - 1).clamp_min(0))


def _most_probable(log_p: Tensor, top_p: float) -> Tensor:
    """The largest log-probabilities in falling order, enough for a mass of at least top_p."""
    # On another device, checking whether the guess was large enough would have to wait for the device.
    if log_p.device.type == "cpu":
        values = log_p.topk(min(_NUCLEUS_GUESS, log_p.shape[-1]), -1).values
        if values.shape[-1] == log_p.shape[-1] or not (values.exp().sum(-1) < top_p).any():
            return values
    return log_p.sort(-1, descending=True).values


def _cut(log_p: Tensor, cutoff: Tensor) -> Tensor:
    return torch.log_softmax(log_p.masked_fill(log_p < cutoff, -math.inf), -1)
