"""Drafting by anything that is no model: what it proposes, checked and arranged in the topology.

A drafter is an object with one of two methods, and a `name` where it has one:

    propose(text_ids, topology)     continuations of the text, each a list of token ids, the likeliest first.
                                    Together they must fit into the topology: a node has at most as many
                                    children as it has there. None at all is an answer, too.
    law(text_ids, drafted_ids)      weights by token id of what follows the text and these drafted tokens, in
                                    any unit; empty where it has no idea. Drafts are then drawn from them.

Where it has a method `new_run()`, each run asks what that returns instead, so that it can keep an index.

Under ERSD the text is that of autoregressive decoding whatever is proposed. Under GSD proposals are tokens
drafted without chance: p is sampled once, and a proposed token is accepted if it is the sample.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from specdec.checks import integer, integers, real
from specdec.methods import Drafted
from specdec.models.together.forwards import Asking
from specdec.probs import Sampling, log_probs
from specdec.race import NodeRaces, Noise, arrivals
from specdec.topology import Topology


class Proposer(Protocol):
    """A drafter without chances."""

    def propose(self, text_ids: Sequence[int], topology: Topology) -> Iterable[Sequence[int]]:
        """Continuations of the text that fit into the topology, the likeliest first."""
        ...


class Estimator(Protocol):
    """A drafter with chances."""

    def law(self, text_ids: Sequence[int], drafted_ids: Sequence[int]) -> Mapping[int, float]:
        """Weights by token id of what follows the text and these drafted tokens."""
        ...


def checked_drafter(drafter: Any) -> Proposer | Estimator | None:
    """The drafter; ValueError where it has neither of the methods."""
    if isinstance(drafter, type):
        raise ValueError(f"drafter = {drafter!r:.60} is a class; give one of its objects")
    if drafter is None or any(callable(getattr(drafter, name, None)) for name in ("propose", "law")):
        return drafter
    raise ValueError(
        f"drafter = {drafter!r:.60} has neither propose(text_ids, topology) nor law(text_ids, drafted_ids); "
        "a draft model goes into the pair"
    )


def drafter_name(drafter: Proposer | Estimator) -> str:
    """What records call it."""
    return str(getattr(drafter, "name", type(drafter).__name__))


class ProposedDrafter:
    """One run's drafter that is no model, in the place of `drafters.model.Drafter`.

    It has no cache, and nothing to be kept.
    """

    session = None
    context_length = sys.maxsize

    def __init__(self, drafter: Proposer | Estimator, vocab_size: int, sampling: Sampling):
        self.name, self.vocab_size, self.sampling = drafter_name(drafter), vocab_size, sampling
        self._asked: Any = self._for_this_run(drafter)

    def draft(self, text_ids: Sequence[int], topology: Topology, log_e: Noise | NodeRaces) -> Asking[Drafted]:
        """What is proposed of the topology; from a law, each node's children are first arrivals under q.

        log_e: the race of each depth, depth + 1 of them. ValueError names what does not fit.
        """
        yield from ()  # no forward is asked for
        assert not isinstance(log_e, NodeRaces), "rules whose nodes race alone take no such drafter"
        if hasattr(self._asked, "law"):
            tokens, log_q = self._drawn(text_ids, topology, log_e)
        else:
            tokens, log_q = self._proposed(text_ids, topology), {}
        rows = [0, *sorted(tokens)]
        kept = topology if len(rows) == len(topology.parents) else topology.subset(rows[1:])
        token_ids = [text_ids[-1], *(tokens[row] for row in rows[1:])]
        return Drafted(kept, token_ids, [log_q.get(row) for row in rows])

    def keep(self, rows: Sequence[int]) -> None:
        """Nothing was scored."""

    def _for_this_run(self, drafter: Any) -> Any:
        found = drafter.new_run() if hasattr(drafter, "new_run") else drafter
        if checked_drafter(found) is None:
            raise ValueError(f"{self.name}: new_run() gave None, and no drafter")
        return found

    def _proposed(self, text_ids: Sequence[int], topology: Topology) -> dict[int, int]:
        """Token by row of the topology; equal beginnings of continuations share rows."""
        proposed = self._asked.propose(tuple(text_ids), topology)
        if isinstance(proposed, str) or not isinstance(proposed, Iterable):
            raise ValueError(f"{self.name}: propose() gave {proposed!r:.60}, and no list of continuations")
        tokens: dict[int, int] = {}
        for number, continuation in enumerate(proposed):
            where, row, before = f"{self.name}: propose()[{number}]", 0, len(tokens)
            for token_id in integers(where, continuation):
                self._checked_id(where, token_id)
                row = _child(topology, tokens, row, token_id, where)
                tokens[row] = token_id
            if row and len(tokens) == before:
                raise ValueError(f"{where} is there already, as another one or as the beginning of one")
        return tokens

    def _drawn(
        self, text_ids: Sequence[int], topology: Topology, log_e: Noise
    ) -> tuple[dict[int, int], dict[int, Tensor]]:
        """Token, and log q of inner nodes, by row of the topology."""
        text = tuple(text_ids)
        tokens: dict[int, int] = {}
        log_q: dict[int, Tensor] = {}
        lines: dict[int, tuple[int, ...]] = {0: ()}
        for depth, inner in enumerate(topology.inner_levels):
            for row in (row for row in inner if row in lines):
                weights = self._weights(text, lines[row])
                if weights is None:
                    continue
                log_q[row] = log_probs(weights.to(_device(log_e)), self.sampling, self.vocab_size)
                children = topology.children[row]
                (order,) = arrivals(log_q[row][None], log_e[depth], len(children))
                for child, token_id in zip(children, order, strict=False):
                    tokens[child], lines[child] = token_id, (*lines[row], token_id)
        return tokens, log_q

    def _weights(self, text_ids: Sequence[int], drafted_ids: Sequence[int]) -> Tensor | None:
        """Logarithms of the law's weights, [vocabulary]; None where it has none."""
        law = self._asked.law(text_ids, drafted_ids)
        if not isinstance(law, Mapping):
            raise ValueError(f"{self.name}: law() gave {law!r:.60}, and no weights by token id")
        chances: dict[int, float] = {}
        for token_id, weight in law.items():
            number = real(weight)
            if number is None or number < 0:
                raise ValueError(f"{self.name}: law()[{token_id}] = {weight!r:.60} is no weight from 0 up")
            chances[self._checked_id(f"{self.name}: law()", token_id)] = number
        if not any(chances.values()):
            return None
        weights = torch.zeros(self.vocab_size, dtype=torch.float64)
        weights[[*chances]] = torch.tensor([*chances.values()], dtype=torch.float64)
        return weights.log_()

    def _checked_id(self, where: str, token_id: int) -> int:
        number = integer(token_id)
        if number is None or not 0 <= number < self.vocab_size:
            raise ValueError(
                f"{where}: token id {token_id!r:.60} is not in the vocabulary, 0 to {self.vocab_size - 1:,}"
            )
        return number


def _child(topology: Topology, tokens: Mapping[int, int], row: int, token_id: int, where: str) -> int:
    """The row's child with this token, or the first without one."""
    children = topology.children[row]
    for child in children:
        if tokens.get(child, token_id) == token_id:
            return child
    path = topology.paths[row - 1] if row else ()
    raise ValueError(
        f"{where} does not fit into the topology, where path {path} has {len(children)} children"
    )


def _device(log_e: Noise) -> torch.device:
    return log_e.device if isinstance(log_e, Tensor) else torch.device("cpu")
