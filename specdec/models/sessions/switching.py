"""The session of a model whose rotary embedding changes with the length of the text."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from specdec.models.sessions.cached import Layout, TreeSession

if TYPE_CHECKING:
    from specdec.models.base import PreparedModel


class SwitchingSession:
    """A tree session for models whose rotary embedding changes with the length of the text (longrope).

    When the text exceeds `switch` tokens, the angles of all its keys change, also of earlier tokens. So there
    are two sessions: `_near` for nodes among the first `switch` tokens of the text, and `_far` for nodes
    after them. `_far` reads the whole text when the first node beyond `switch` is added.
    """

    must_catch_up = False
    _near_numbers: dict[int, int]
    _fed: int

    def __init__(self, model: PreparedModel, layout: Layout, switch: int, ancestors_only: bool = True):
        self._switch = switch
        self._open = partial(TreeSession, model, layout, ancestors_only)
        self._near: TreeSession | None = self._open()
        self._far: TreeSession | None = None
        self._text: list[int] = []
        self._forget()

    @property
    def length(self) -> int:
        """The number of committed tokens."""
        return len(self._text)

    def prefill(self, token_ids: Sequence[int]) -> None:
        """Append tokens to the committed prefix."""
        assert not self._parents, "prefill while nodes are pending"
        self._text += token_ids
        self._leave_near()
        if self._near is not None:
            self._near.prefill(token_ids)

    def forward(self, token_ids: Tensor, parents: Sequence[int]) -> Tensor:
        """Add n pending nodes with these parents and return their logits [n, vocabulary]."""
        first = len(self._parents)
        for parent in parents:
            self._lengths.append((self._lengths[parent] if parent >= 0 else self.length) + 1)
        self._parents += parents
        self._token_ids += token_ids.tolist()
        new = range(first, len(self._parents))
        near = [node for node in new if self._lengths[node] <= self._switch]
        if len(near) == len(new):
            return self._forward_near(near)
        rows = self._forward_far()[-len(new) :]
        if near:
            rows = rows.clone()
            rows[[node - first for node in near]] = self._forward_near(near)
        return rows

    def commit(self, nodes: Sequence[int]) -> None:
        """Commit these pending nodes, each a child of the one before, and drop all others."""
        if self._near is not None:
            self._near.commit([self._near_numbers[node] for node in nodes if node in self._near_numbers])
        if self._far is not None:
            self._far.commit([node for node in nodes if node < self._fed])
        self._text += [self._token_ids[node] for node in nodes]
        self._leave_near()
        self._forget()

    def _forward_near(self, nodes: Sequence[int]) -> Tensor:
        first = len(self._near_numbers) - 1
        self._near_numbers.update({node: first + i for i, node in enumerate(nodes)})
        parents = [self._near_numbers[self._parents[node]] for node in nodes]
        assert self._near is not None, "the text has `switch` tokens or more"
        return self._near.forward(torch.tensor([self._token_ids[node] for node in nodes]), parents)

    def _forward_far(self) -> Tensor:
        """Logits of all nodes that the session for long texts has not scored yet."""
        if self._far is None:
            self._far = self._open(switch=self._switch)
        if not self._fed:
            self._far.prefill(self._text[self._far.length :])
        token_ids, parents = self._token_ids[self._fed :], self._parents[self._fed :]
        self._fed = len(self._parents)
        return self._far.forward(torch.tensor(token_ids), parents)

    def _leave_near(self) -> None:
        if self.length >= self._switch:
            self._near = None

    def _forget(self) -> None:
        """Forget all pending nodes."""
        self._parents: list[int] = []
        self._token_ids: list[int] = []
        self._lengths: list[int] = []
        self._near_numbers, self._fed = {-1: -1}, 0
