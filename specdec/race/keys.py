"""The keys of all random numbers ("noise") of races and acceptance tests.

All noise is a function of a key. A key is made from (seed, stream, position) or from (seed, round, node).
Therefore the same noise can be drawn again at any time, and each purpose has independent noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from functools import lru_cache

from specdec.checks import integer
from specdec.race import splitmix
from specdec.race.splitmix import GOLDEN, MASK, mix


class Stream(IntEnum):
    """The purposes of noise. Each has independent noise, because GSD, for example, must not test drafts with
    the noise that drew them.

    RACE: the exponentials of a position.
    ACCEPT: the uniforms of acceptance tests.
    RESIDUAL: the uniforms that sample a round's last token.
    AGAIN: the waits until a token arrives again in a race (`drafters.independent`).
    ROUND: the seeds of a round's nodes.
    """

    RACE = 0
    ACCEPT = 1
    RESIDUAL = 2
    AGAIN = 3
    ROUND = 4


def key_of(seed: int, stream: int, position: int) -> int:
    """The key of all noise of (seed, stream, position), for the generator in `splitmix`."""
    return mix(_stream_state(seed, stream) + position * GOLDEN)


@lru_cache(maxsize=256)
def _stream_state(seed: int, stream: int) -> int:
    return mix(mix(seed) + stream * GOLDEN)


def node_seed(seed: int, position: int, node: Sequence[int]) -> int:
    """The seed of one node's own noise in the round that begins at this position. node: the node's path."""
    state = key_of(seed, Stream.ROUND, position)
    for child_index in node:
        state = mix(mix(state) + (child_index + 1) * GOLDEN)
    return state


def uniform(seed: int, position: int, index: int, stream: int = Stream.ACCEPT) -> float:
    """A uniform on (0, 1), ends excluded, keyed by (seed, stream, position, index); for Algorithm 4."""
    return splitmix.uniform(key_of(seed, stream, position), index)


def checked_seed(seed: int) -> int:
    """The seed as int; ValueError if it is not an integer from 0 to 2**64 - 1."""
    number = integer(seed)
    if number is None or not 0 <= number <= MASK:
        raise ValueError(f"seed = {seed!r} is not an integer from 0 to 2**64 - 1")
    return number


def derived_seed(seed: int, number: int) -> int:
    """The seed of prompt `number` of a list, so that the prompts of a list do not share races."""
    return mix(mix(seed) + (number + 1) * GOLDEN) >> 1
