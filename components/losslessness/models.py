"""The small models of the losslessness check: they predict tomorrow's weather from today's.

The default draft's table makes every deliberate mistake in `specdec.exactness.faults` visible within a few
thousand decodes. Two of the mistakes are visible only if the draft favours an unlikely token and several
alternatives share the residual probability.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

import specdec
from specdec.checks import among
from specdec.models import MarkovModel

TOKENS = ("sun", "cloud", "rain", "snow")
TODAY = 0
"""The prompt: today it is sunny."""

# rows: today; columns: tomorrow
_TARGET = torch.tensor(
    [[0.35, 0.30, 0.25, 0.10], [0.20, 0.35, 0.40, 0.05], [0.15, 0.30, 0.50, 0.05], [0.05, 0.25, 0.35, 0.35]],
    dtype=torch.float64,
)
_OTHER_CLIMATE = torch.tensor(
    [[0.05, 0.15, 0.75, 0.05], [0.15, 0.05, 0.25, 0.55], [0.10, 0.20, 0.05, 0.65], [0.60, 0.10, 0.25, 0.05]],
    dtype=torch.float64,
)


def _normalised(table: Tensor) -> Tensor:
    return table / table.sum(-1, keepdim=True)


def _blind(table: Tensor) -> Tensor:
    """A table whose rows are all equal: the long-run probabilities of each weather, which do not depend on
    today's weather."""
    return torch.linalg.matrix_power(table, 64)


DRAFTS = {
    "same": ("perfect: the target itself", _TARGET),
    "near": ("near: a little off", _normalised(0.8 * _TARGET + 0.2 * _OTHER_CLIMATE)),
    "blind": ("blind: does not know today's weather", _blind(_TARGET)),
    "climate": ("far: for another climate", _OTHER_CLIMATE),
    "hostile": ("hostile: proposes what the target finds unlikely", _normalised(1 / _TARGET)),
}
"""The drafts that a visitor can choose: each one's label on the page, and its probabilities of tomorrow's
weather given today's."""


@cache
def pair(draft: str) -> specdec.ModelPair:
    """The pair of the target and the draft with this name. ValueError lists the known names."""
    _, table = DRAFTS[among("draft", draft, DRAFTS)]
    return specdec.ModelPair(MarkovModel(_TARGET, "weather"), MarkovModel(table, draft))


def tables(draft: str) -> dict[str, list[list[float]]]:
    """The probabilities of both models of `pair`. Each row belongs to one weather of today."""
    return {"target": _TARGET.tolist(), "draft": DRAFTS[draft][1].tolist()}
