"""Codes for indices: range coding with a given distribution, and Elias gamma. Also a Zipf distribution."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import constriction
import numpy as np

from specdec.channel.checked import MOST_COUNT, checked_indices
from specdec.checks import real, reals, whole


def zipf_distribution(kl: float, size: int = 4096) -> np.ndarray:
    """Probabilities [size] of indices ∝ (index + 1)^-s, with s = 1 + 1 / (D_KL + log(e) / e + 1).

    Li and El Gamal (2018) prove the bound of the paper's Equation 8 with this distribution. It depends only
    on D_KL, in bits. Its code needs at most D_KL + log(D_KL + 1) + 5 bits on average. The result sums to
    less than 1: it leaves out indices from `size` on, which `encode_indices` sends after an escape symbol.
    ValueError if kl is not a finite number of at least 0 bits.
    """
    bits, size = real(kl), whole("size", size, 1, MOST_COUNT)
    if bits is None or bits < 0:
        raise ValueError(f"kl = {kl!r} is not a finite number of at least 0 bits")
    # s - 1 is computed directly, because a subtraction from s would lose digits
    above_one = 1 / (bits + math.log2(math.e) / math.e + 1)
    weights = np.arange(1, size + 1) ** -(1 + above_one)
    tail = (size + 0.5) ** -above_one / above_one  # the sum over all further indices, as an integral
    return weights / (weights.sum() + tail)


def encode_indices(indices: Sequence[int], distribution: Sequence[float] | np.ndarray) -> bytes:
    """Encode indices with a range coder: each takes about -log2 distribution[index] bits. The output consists
    of whole words of 32 bits.

    Equations 6 to 8 of the paper bound the entropy of the index, which is the mean of these bits.
    distribution: probabilities [n] that sum to at most 1. An index from n to 2³² - 1 takes an escape symbol
    and 32 more bits. ValueError names an invalid entry.
    """
    model, size = _index_model(distribution)
    encoder = constriction.stream.queue.RangeEncoder()
    for index in checked_indices(indices):
        encoder.encode(min(index, size), model)
        if index >= size:
            for half in divmod(index - size, 1 << 16):
                encoder.encode(half, _HALF)
    return encoder.get_compressed().astype("<u4").tobytes()


def decode_indices(data: bytes, count: int, distribution: Sequence[float] | np.ndarray) -> list[int]:
    """Decode the output of `encode_indices`, for this number of indices and the same distribution.

    The data contains neither the number of indices, nor the distribution, nor a checksum. Damaged data gives
    wrong indices or an AssertionError.
    """
    model, size = _index_model(distribution)
    decoder = constriction.stream.queue.RangeDecoder(np.frombuffer(data, "<u4").astype(np.uint32))
    indices = []
    for _ in range(count):
        index = int(decoder.decode(model))
        if index == size:
            index += (int(decoder.decode(_HALF)) << 16) + int(decoder.decode(_HALF))
        indices.append(index)
    return indices


def encode_elias_gamma(indices: Iterable[int]) -> str:
    """Encode each index in 2⌊log2(index + 1)⌋ + 1 bits; return a string of 0 and 1.

    The paper does not use this code. It needs no distribution, and the receiver knows an index as soon as its
    last bit arrives. `encode_indices` is shorter over a whole message. ValueError names an invalid entry.
    """
    return "".join(elias_gamma(index + 1) for index in checked_indices(indices))


_HALF = constriction.stream.model.Uniform(1 << 16)
_LEAST_ESCAPE = 1e-6


def _index_model(
    distribution: Sequence[float] | np.ndarray,
) -> tuple[constriction.stream.model.Categorical, int]:
    """The range coder's model for indices, and the number n of indices.

    The model gives each of the n indices its probability. Symbol n is the escape, for all larger indices.
    """
    probs = reals(distribution)
    if probs is None or probs.ndim != 1 or not len(probs) or not (probs >= 0).all() or probs.sum() > 1 + 1e-6:
        raise ValueError(
            f"distribution = {distribution!r:.60} is not a list of probabilities that sums to at most 1"
        )
    escape = max(1 - probs.sum(), _LEAST_ESCAPE)
    return constriction.stream.model.Categorical(np.append(probs, escape), perfect=False), len(probs)


def elias_gamma(value: int) -> str:
    """The Elias gamma code of a number of at least 1: the number in binary, after as many zeros as it has
    bits after the first. 1 -> 1, 2 -> 010, 3 -> 011, 4 -> 00100."""
    return "0" * (value.bit_length() - 1) + f"{value:b}"


def read_elias_gamma(bits: str, start: int) -> tuple[int, int]:
    """The number whose code begins at `start`, and the end of this code. ValueError if `bits` end early."""
    first = bits.find("1", start)
    end = 2 * first - start + 1
    if first < 0 or len(bits) < end:
        raise ValueError(f"bits = {bits!r:.40} end inside the number that begins at position {start}")
    return int(bits[first:end], 2), end
