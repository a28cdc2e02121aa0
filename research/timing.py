"""Times the forward passes of a model."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch

from specdec.bench.measure import Name, least_seconds
from specdec.models import Model


def forward_seconds(
    model: Model,
    prefix: Sequence[int],
    trees: Mapping[Name, Sequence[int]],
    times: int,
    clock: Callable[[], float],
) -> dict[Name, float]:
    """Seconds of the fastest of `times` forward passes over each tree, after the ids `prefix`.

    trees: by name, for each row (token) the index of its parent row, or -1. All trees take turns. clock:
    returns the time in seconds.
    """
    session = model.session()
    session.prefill(prefix)

    def forward(parents: Sequence[int]) -> None:
        session.forward(torch.arange(len(parents), device=model.device), parents)
        session.commit([])

    return least_seconds({name: partial(forward, each) for name, each in trees.items()}, times, clock)
