"""Runs a model in float32 although its weights have half precision: the reference of its self-check.

A model in half precision rounds the result of every operation. A forward pass that rounds less is more exact,
and must not be refused because it differs. So the reference computes every operation of the model's own code
in float32. A weight is widened only while an operation reads it, so only one is in memory twice at any time.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import embedding
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

HALF = (torch.float16, torch.bfloat16)


class Widened(TorchFunctionMode):
    """Inside this block, torch's functions compute in float32 if they get tensors of half precision."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Calls a torch function on tensors widened to float32. Reading an attribute such as dtype still
        gives that of the narrow tensor."""
        kwargs = kwargs or {}
        if func is embedding:  # widens only the rows that are read
            return widened(func(*args, **kwargs))
        if getattr(func, "__name__", "") in ("__get__", "__set__"):
            return func(*args, **kwargs)
        return func(*tree_map(widened, args), **tree_map(widened, kwargs))


def widened(value: Any) -> Any:
    """A tensor of half precision as float32; any other value unchanged."""
    return value.float() if isinstance(value, Tensor) and value.dtype in HALF else value
