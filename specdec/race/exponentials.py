"""The exponential random numbers of races (Section 3 of the paper), as logarithms, from float64 uniforms."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

from specdec.checks import whole
from specdec.race import splitmix
from specdec.race.keys import Stream, checked_seed, key_of


def log_exponentials(
    seed: int,
    positions: Iterable[int],
    vocab_size: int,
    *,
    stream: int = Stream.RACE,
    device: torch.device | str = "cpu",
) -> Tensor:
    """log e, float64 [positions, vocab_size], with random e ~ Exp(1) keyed by (seed, stream, position).

    The e are the exponentials of Section 3 and of Algorithm 5, lines 5 to 7, of the paper. ValueError if the
    seed or a position is not an integer from 0 to 2**64 - 1.
    """
    seed = checked_seed(seed)
    keys = [key_of(seed, stream, whole("position", position, 0, splitmix.MASK)) for position in positions]
    return fill(torch.empty(len(keys), vocab_size, dtype=torch.float64, device=device), keys)


def fill(rows: Tensor, keys: Sequence[int]) -> Tensor:
    """Write log e, e ~ Exp(1) determined by the keys, into `rows` [keys, vocabulary], and return `rows`."""
    vocab_size = rows.shape[-1]
    if rows.device.type != "cpu":
        uniforms = splitmix.uniforms_on(rows.device, keys, vocab_size)  # [keys, vocabulary]
        return rows.copy_(uniforms.neg_().log1p_().neg_().log_())
    on_host = rows.numpy()  # [keys, vocabulary], in the same memory
    for some, part, u in splitmix.blocks(keys, vocab_size):
        log_exponential(u, on_host[some, part])
    return rows


def log_exponential(u: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """log e for float64 uniforms u, with e = -log(1 - u) ~ Exp(1). Overwrites u. out: the array for the
    result; by default u."""
    np.negative(np.log1p(np.negative(u, out=u), out=u), out=u)
    return np.log(u, out=u if out is None else out)
