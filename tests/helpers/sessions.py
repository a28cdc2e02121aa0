"""Sessions of models: their logits, and random rounds that are compared with plain forward passes."""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch

from specdec.models import HFModel, Model
from specdec.models.selfcheck import relative_error
from specdec.models.weights import evaluating
from tests.helpers.tiny_checkpoints import VOCAB_SIZE


def scored(
    model: Model, prompt: Sequence[int], token_ids: Sequence[int], parents: Sequence[int] | None = None
) -> torch.Tensor:
    """Logits [n, V] of a new session for n nodes after a prompt. parents: None for a line."""
    session = model.session()
    session.prefill(prompt)
    line = range(-1, len(token_ids) - 1)
    return session.forward(torch.tensor(token_ids), line if parents is None else parents)


class Replay:
    """A session, with the token sequences of its nodes, from which its expected scores follow."""

    def __init__(self, model: HFModel, seed: int, prefix: int):
        self.rng = random.Random(seed)
        self.model = model
        self.session = model.session()
        self.committed = self._tokens(prefix)
        for part in (self.committed[: prefix // 2], self.committed[prefix // 2 :]):
            self.session.prefill(part)
        self.pending: list[list[int]] = []

    def forward(self, parents: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits [n, V] of the session, and of plain forward passes over each token sequence."""
        have = self.advance(parents)
        assert have.shape == (len(parents), self.model.vocab_size)
        return have, torch.stack([self.plain(line) for line in self.pending[-len(parents) :]])

    def advance(self, parents: list[int]) -> torch.Tensor:
        """Logits [n, V] of the session."""
        tokens = self._tokens(len(parents))
        for token, parent in zip(tokens, parents, strict=True):
            above = self.pending[parent] if parent >= 0 else self.committed
            self.pending.append([*above, token])
        return self.session.forward(torch.tensor(tokens), parents)

    def commit(self, nodes: list[int]) -> None:
        self.session.commit(nodes)
        self.committed = self.pending[nodes[-1]] if nodes else self.committed
        self.pending = []
        assert self.session.length == len(self.committed)

    def largest_error(self, rounds: int, most_accepted: int = 99) -> float:
        """The largest error in random rounds of one to three forward passes over what the model can score."""
        errors, capability = [], self.model.capability
        for _ in range(rounds):
            parents: list[int] = []
            for _ in range(1 if capability == "ar" else self.rng.randrange(1, 4)):
                first, more = len(parents), 1 if capability == "ar" else self.rng.randrange(1, 6)
                chain = list(range(first - 1, first - 1 + more))
                parents += random_tree(self.rng, more, first) if capability == "tree" else chain
                errors.append(relative_error(*self.forward(parents[first:])))
            self.commit(random_line(self.rng, parents)[:most_accepted])
        return max(errors)

    @torch.inference_mode()
    def plain(self, line: list[int]) -> torch.Tensor:
        """Logits [V] after these tokens, of a plain forward pass in evaluation mode."""
        with evaluating(self.model.module):
            return self.model.module(input_ids=torch.tensor([line]), use_cache=False).logits[0, -1]

    def _tokens(self, n: int) -> list[int]:
        return [self.rng.randrange(3, VOCAB_SIZE) for _ in range(n)]


def random_tree(rng: random.Random, nodes: int, first: int = 0) -> list[int]:
    """Parents of `nodes` more nodes after `first` pending ones. Earlier nodes are likelier."""
    return [rng.randrange(-1, node) if node else -1 for node in range(first, first + nodes)]


def random_line(rng: random.Random, parents: list[int]) -> list[int]:
    """A path from the prefix to a random node, or none."""
    node, line = rng.randrange(-1, len(parents)), []
    while node >= 0:
        line.append(node)
        node = parents[node]
    return line[::-1]
