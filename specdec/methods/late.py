"""Race winners on a GPU that the host reads late, so that the GPU does not wait for the host.

The host launches further work on tokens that it does not know yet, and reads the tokens when it needs them. A
read waits only for work that was launched before the copy of the tokens to the host, not for work launched
after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from specdec.devices import upload
from specdec.probs import broken_logits
from specdec.race import orders_of


class LateOrders:
    """The orders of arrivals in several results of `first_of`, copied to the host with one transfer."""

    def __init__(self, parts: Sequence[Tensor]):
        self._shapes = [part.shape for part in parts]
        device = parts[0].device
        # "cpu" without blocking copies into pinned memory, so that the program goes on during the copy
        self._numbers = torch.cat([part.flatten() for part in parts]).to("cpu", non_blocking=True)
        self._copied: Any = None
        if device.type == "cuda":
            self._copied = torch.cuda.current_stream(device).record_event()

    def read(self) -> list[list[list[int]]]:
        """For each part, the orders of its rows. An order is empty if the row's logits are broken."""
        if self._copied is not None:
            self._copied.synchronize()
        parts = self._numbers.split([shape.numel() for shape in self._shapes])
        return [orders_of(part.view(shape)) for part, shape in zip(parts, self._shapes, strict=True)]


class LateTokens(Sequence[int]):
    """The token ids of a sequence: known tokens, then the first arrival of each of several races.

    known: tokens that the host knows. arrived: for each race, its result of `first_of`, [1, 2, 1]. on_device:
    all token ids, int64 [n]. The first access reads them to the host; it raises ValueError if the logits of a
    race are broken.
    """

    def __init__(self, known: Sequence[int], arrived: Sequence[Tensor]):
        self._known, self._late = known, LateOrders(arrived)
        tokens = torch.cat(list(arrived))[:, 1, 0].long()
        self.on_device = torch.cat([upload(known, tokens.device), tokens]) if known else tokens

    @cached_property
    def _token_ids(self) -> list[int]:
        orders = [order for part in self._late.read() for order in part]
        if not all(orders):
            raise broken_logits()
        return [*self._known, *(order[0] for order in orders)]

    def __len__(self) -> int:
        return len(self.on_device)

    def __getitem__(self, place: Any) -> Any:
        return self._token_ids[place]
