"""Features of a node of a draft tree, known before the target has scored it.

All functions take a batch of n nodes and return float32 [n, WIDTH, features], one row for each child index:

    of_node        only q: its entropy and its largest probabilities
    of_uniforms    GSD: the uniforms that will test the children
    of_children    the probabilities of the drafted children
    of_arrivals    ERSD: the gaps between the arrivals of the children
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

WIDTH = 8
"""The largest number of children of a node."""
_FLOOR = -20.0
"""The smallest logarithm of a probability; smaller logarithms are raised to this value."""
_CEILING = 20.0


def of_node(log_q: Tensor) -> Tensor:
    """Entropy of q, its two largest log q, and log(1 - largest q), from log_q [n, vocabulary]."""
    entropy = torch.special.entr(log_q.exp()).sum(-1)
    first, second = _largest(log_q, 2).unbind(-1)
    tail = torch.log1p(-first.exp()).clamp_min(_FLOOR)
    columns = torch.stack([entropy, first, second, tail], -1).float()
    return columns[:, None].expand(len(columns), WIDTH, columns.shape[-1])


def of_uniforms(uniforms: Tensor, count: int) -> Tensor:
    """u, log u and log(1 - u) for uniforms u [WIDTH], which all `count` nodes of a level share."""
    u = uniforms.float()
    columns = torch.stack([u, u.log(), torch.log1p(-u).clamp_min(_FLOOR)], -1)
    return columns.expand(count, WIDTH, 3)


def of_children(log_q: Tensor, children: Tensor) -> Tensor:
    """log q of the drafted `children`, int64 [n, up to WIDTH], and its difference from the largest log q."""
    drafted = _padded(log_q.gather(-1, children), _FLOOR)
    return torch.stack([drafted, drafted - _largest(log_q, 1)], -1).float()


def of_arrivals(times: Tensor) -> Tensor:
    """For each child, the distance of its log arrival time from the first time, and from the next child's.
    times: log times of the first arrivals, [n, up to WIDTH + 1]."""
    since = _padded(times - times[:, :1], _CEILING, WIDTH + 1)
    return torch.stack([since[:, :-1], since.diff(dim=-1)], -1).float()


def _largest(log_q: Tensor, count: int) -> Tensor:
    return _padded(log_q.topk(min(count, log_q.shape[-1]), -1).values, _FLOOR, count)


def _padded(values: Tensor, fill: float, width: int = WIDTH) -> Tensor:
    """Adds columns with the value `fill` until there are `width`. All values are also limited by `fill`: from
    below if it is negative, otherwise from above."""
    values = pad(values, (0, max(width - values.shape[-1], 0)), value=fill)
    return values.clamp_min(fill) if fill < 0 else values.clamp_max(fill)
