"""A language model that is a table of probabilities, on which everything can be computed exactly."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from specdec.checks import reals, whole
from specdec.models.base import Capability


class MarkovModel:
    """A language model given by a table of next-token probabilities, for tests and experiments.

    table: a tensor, an array or lists with `order` + 1 dimensions of size V. `table[a, ..., b]` holds the
    probabilities of the token after a, ..., b, the last `order` tokens of a text. In a shorter text, missing
    tokens count as token 0. Logits are on the table's device. ValueError for any other table.
    """

    capability: Capability = "tree"
    most_repeated = 0

    def __init__(
        self, table: Tensor | np.ndarray | Sequence, name: str = "markov", context_length: int = 1 << 20
    ):
        table = _tensor(table)
        vocab_size = table.shape[-1] if table.dim() else 0
        if not vocab_size or any(size != vocab_size for size in table.shape):
            raise ValueError(f"table has shape {tuple(table.shape)}; all its sizes must be the vocabulary's")
        if (table < 0).any() or not torch.allclose(table.sum(-1), torch.ones_like(table.sum(-1)), atol=1e-6):
            raise ValueError("table has rows that are not probabilities: negative, or not summing to 1")
        self.log_table, self.device = table.log(), table.device
        self.order = table.dim() - 1
        self.vocab_size = vocab_size
        self.name = name
        self.context_length = whole("context_length", context_length, 1)

    def session(self) -> MarkovSession:
        """A new session with an empty prefix."""
        return MarkovSession(self)


def _tensor(table: Tensor | np.ndarray | Sequence) -> Tensor:
    if isinstance(table, Tensor) and table.is_floating_point():
        return table
    array = reals(table)
    if array is None:
        raise ValueError(f"table = {table!r:.60} must be real numbers in rows of one length")
    return torch.from_numpy(array)


class MarkovSession:
    """A session of a Markov model. Its only cache is the text itself."""

    must_catch_up = False

    def __init__(self, model: MarkovModel):
        self.model = model
        self.prefix: list[int] = []
        self.pending: list[list[int]] = []

    @property
    def length(self) -> int:
        """The number of committed tokens."""
        return len(self.prefix)

    def prefill(self, token_ids: Sequence[int]) -> None:
        """Append tokens to the committed prefix."""
        assert not self.pending, "prefill while nodes are pending"
        self.prefix += token_ids

    def forward(self, token_ids: Tensor, parents: Sequence[int]) -> Tensor:
        """Add n pending nodes; return the log-probabilities [n, vocabulary] of the token after each."""
        first = len(self.pending)
        for token_id, parent in zip(token_ids.tolist(), parents, strict=True):
            line = self.pending[parent] if parent >= 0 else []
            self.pending.append([*line, token_id])
        return torch.stack([self.model.log_table[self._state(line)] for line in self.pending[first:]])

    def commit(self, nodes: Sequence[int]) -> None:
        """Commit these pending nodes and drop all others."""
        if nodes:
            line = self.pending[nodes[-1]]
            assert len(line) == len(nodes), "each committed node must be a child of the one before"
            self.prefix += line
        self.pending = []

    def _state(self, line: list[int]) -> tuple[int, ...]:
        order = self.model.order
        recent = (self.prefix[-order:] + line)[-order:] if order else []
        return tuple([0] * (order - len(recent)) + recent)
