"""Drafting whose children are independent draws from q, of which equal ones are one node.

The children of a node with n children in the topology are the distinct tokens among n draws: its first
arrivals, as in `model`, but maybe fewer of them. What the topology has below a missing child is not drafted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import Tensor

from specdec.drafters.model import Drafter
from specdec.methods import Drafted
from specdec.models import Model
from specdec.models.together.forwards import Asking
from specdec.probs import Sampling, log_weights
from specdec.race import log_waits, with_replacement
from specdec.race.sparse import SparseRace
from specdec.topology import Topology


class Repeated(NamedTuple):
    """The race of a depth, and what it takes to let tokens arrive again: log e of the waits."""

    race: Tensor | SparseRace
    log_waits: list[float]


class IndependentDrafter(Drafter):
    """The draft model's cache, and independent draws; those of a position are keyed by (seed, position)."""

    def __init__(self, model: Model, vocab_size: int, sampling: Sampling, seed: int):
        super().__init__(model, vocab_size, sampling)
        self.seed = seed
        self._draws: dict[int, list[int]] = {}  # row of the tree -> tokens of its draws

    def draft(self, text_ids: Sequence[int], topology: Topology, log_e: Any) -> Asking[Drafted]:
        """As `Drafter.draft`, with draws that may be equal: `Drafted.draws` has all of them."""
        self._draws = {}
        if isinstance(log_e, Tensor):
            log_e = log_e.to(self.model.device)
        repeated: list[Any] = [
            Repeated(race, log_waits(self.seed, len(text_ids) + depth, width))
            for depth, (race, width) in enumerate(zip(log_e, topology.widths, strict=False))
        ]
        return (yield from super().draft(text_ids, topology, repeated))

    def _race(self, logits: Tensor, log_e: Any, count: int) -> tuple[list[list[int]], Tensor | None]:
        """`count` draws from q of each row; q [n, vocabulary] where that took all of it."""
        orders, log_q = super()._race(logits, log_e.race, count)
        weights = log_weights(logits, self.sampling, self.vocab_size) if log_q is None else log_q
        assert weights is not None, "probabilities are needed to know which tokens are kept"
        rows = zip(orders, weights, strict=True)
        return [self._drawn(order, row, log_e) for order, row in rows], log_q

    def _drawn(self, order: list[int], log_q: Tensor, log_e: Repeated) -> list[int]:
        q = log_q[order].tolist()
        times = [e - x for e, x in zip(_log_exponentials(log_e.race, order), q, strict=True)]
        return with_replacement(order, times, q, log_e.log_waits)

    def _children(self, topology: Topology, row: int, order: list[int]) -> Sequence[int]:
        self._draws[row] = order[: len(topology.children[row])]
        return [*dict.fromkeys(self._draws[row])]

    def _drafted(
        self,
        topology: Topology,
        tokens: dict[int, int],
        logits: dict[int, Tensor],
        known: dict[int, Tensor],
    ) -> Drafted:
        drafted, draws = super()._drafted(topology, tokens, logits, known), []
        for row, children in zip(sorted(tokens), drafted.topology.children, strict=True):
            rows = {drafted.token_ids[child]: child for child in children}
            draws.append([rows[token] for token in self._draws.get(row, ())])
        return drafted._replace(draws=draws)


def _log_exponentials(race: Tensor | SparseRace, tokens: list[int]) -> list[float]:
    """log e of these tokens in one race."""
    return race[tokens].tolist() if isinstance(race, Tensor) else race.log_e(tokens)
