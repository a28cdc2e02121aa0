"""Drafting by a user's object instead of a model. Its proposals are checked and arranged in the topology.

A user's drafter is an object with one of two methods, and perhaps a `name`:

    propose(text_ids, topology)     continuations of the text, each a list of token ids, the likeliest first.
                                    Together they must fit into the topology: no node may have more children
                                    than in the topology. The list may be empty.
    distribution(text_ids, drafted_ids)
                                    weights, by token id, of the token that follows the text and these drafted
                                    tokens; not normalised, perhaps empty. Drafts are sampled from them.

A function is used as the method `propose`. If the object has a method `new_run()`, each run uses the object
that `new_run()` returns, which may keep an index of this run's text.

Under ERSD the text is that of autoregressive decoding, whatever is proposed. Under GSD, proposals are tokens
drafted without probabilities: p is sampled once, and a proposed token is accepted if it is the sample.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Protocol

import torch
from torch import Tensor

from specdec.checks import integer, integers, real
from specdec.drafters.base import Drafter, NoDrafter
from specdec.methods import Drafted
from specdec.models.requests import Requesting
from specdec.probs import Sampling, log_probs
from specdec.race import PositionNoise
from specdec.topology import Topology


class Proposer(Protocol):
    """A user's drafter without probabilities."""

    def propose(self, text_ids: Sequence[int], topology: Topology) -> Iterable[Sequence[int]]:
        """Continuations of the text that fit into the topology, the likeliest first."""


class Estimator(Protocol):
    """A user's drafter with probabilities."""

    def distribution(self, text_ids: Sequence[int], drafted_ids: Sequence[int]) -> Mapping[int, float]:
        """Weights of the token that follows the text and these drafted tokens, by token id."""


Drafting = Proposer | Estimator | str
"""A value of the setting `drafter`: a user's object, or a name in `drafters.catalogue`."""


def as_object(drafter: Any) -> Proposer | Estimator:
    """A user's drafter as an object: a function becomes an object with `propose`. ValueError for a class, and
    for an object that has neither of the two methods."""
    if isinstance(drafter, type):
        raise ValueError(f"drafter = {drafter!r:.60} is a class; give one of its objects")
    methods = ("propose", "distribution")
    if any(callable(getattr(drafter, name, None)) for name in methods):
        return drafter
    if callable(drafter):
        name = getattr(drafter, "name", getattr(drafter, "__name__", type(drafter).__name__))
        proposer: Any = SimpleNamespace(propose=drafter, name=name)
        return proposer
    raise ValueError(
        f"drafter = {drafter!r:.60} has neither propose(text_ids, topology) nor "
        "distribution(text_ids, drafted_ids); a draft model goes into the pair"
    )


def drafter_name(drafter: Drafting) -> str:
    """The drafter's name in records."""
    return drafter if isinstance(drafter, str) else str(getattr(drafter, "name", type(drafter).__name__))


def drafter_of_user(drafter: Any, vocab_size: int, sampling: Sampling) -> Drafter:
    """The `Drafter` of one run, made from a user's checked object. ValueError if the object's `new_run`
    returns no drafter."""
    name = drafter_name(drafter)
    new = drafter.new_run() if hasattr(drafter, "new_run") else drafter
    if new is None or isinstance(new, str):
        raise ValueError(f"{name}: new_run() gave {new!r:.60}, which is not a drafter")
    own = as_object(new)
    kind = EstimatedDrafter if hasattr(own, "distribution") else ProposedDrafter
    return kind(own, name, vocab_size, sampling)


class ProposedDrafter(NoDrafter):
    """The `Drafter` of one run that calls a user's `Proposer`. It has no cache."""

    def __init__(self, user: Any, name: str, vocab_size: int, sampling: Sampling):
        self.user, self.name, self.vocab_size, self.sampling = user, name, vocab_size, sampling

    def draft(
        self, text_ids: Sequence[int], topology: Topology, depth: int, noise: PositionNoise
    ) -> Requesting[Drafted]:
        """Drafts a tree from the proposals; see `Drafter.draft`. ValueError names an invalid proposal."""
        yield from ()  # this drafter needs no forward pass
        topology = topology.limited(depth)
        if not topology.num_draft_tokens:
            tokens, log_q = dict[int, int](), dict[int, Tensor]()
        else:
            tokens, log_q = self._tokens(text_ids, topology, noise)
        rows = sorted(tokens)
        if len(rows) < topology.num_draft_tokens:
            topology = topology.subset(rows)
        token_ids = [text_ids[-1], *(tokens[row] for row in rows)]
        return Drafted(topology, token_ids, [log_q.get(row) for row in (0, *rows)])

    def _tokens(
        self,
        text_ids: Sequence[int],
        topology: Topology,
        noise: PositionNoise,  # noqa: ARG002
    ) -> tuple[dict[int, int], dict[int, Tensor]]:
        """The token of each drafted row of the topology, and log q for each row with children. A `Proposer`
        has no log q. Continuations that begin with equal tokens share the nodes of these tokens."""
        proposed = self.user.propose(tuple(text_ids), topology)
        if isinstance(proposed, str) or not isinstance(proposed, Iterable):
            raise ValueError(
                f"{self.name}: propose() gave {proposed!r:.60}, which is not a list of continuations"
            )
        tokens: dict[int, int] = {}
        for number, continuation in enumerate(proposed):
            where, row, first = f"{self.name}: propose()[{number}]", 0, len(tokens)
            for token_id in integers(where, continuation):
                self._checked_id(where, token_id)
                row = _child(topology, tokens, row, token_id, where)
                tokens[row] = token_id
            if row and len(tokens) == first:
                raise ValueError(f"{where} repeats another continuation or its beginning")
        return tokens, {}

    def _checked_id(self, where: str, token_id: int) -> int:
        number = integer(token_id)
        if number is None or not 0 <= number < self.vocab_size:
            raise ValueError(
                f"{where}: token id {token_id!r:.60} is not in the vocabulary, 0 to {self.vocab_size - 1:,}"
            )
        return number


class EstimatedDrafter(ProposedDrafter):
    """The `Drafter` of one run that calls a user's `Estimator` for distributions q.

    A node's children are the tokens that arrive first in the race under q.
    """

    def _tokens(
        self, text_ids: Sequence[int], topology: Topology, noise: PositionNoise
    ) -> tuple[dict[int, int], dict[int, Tensor]]:
        text = tuple(text_ids)
        tokens: dict[int, int] = {}
        log_q: dict[int, Tensor] = {}
        drafted: dict[int, tuple[int, ...]] = {0: ()}  # by row: the tokens from the root's child to this row
        for row, children in enumerate(topology.children):
            if row not in drafted or not children:
                continue
            weights = self._log_weights(text, drafted[row])
            if weights is None:
                continue
            log_q[row] = log_probs(weights, self.sampling, self.vocab_size)
            order = noise.race(topology.path(row)).arrivals(log_q[row][None], len(children))[0]
            for child, token_id in zip(children, order, strict=False):
                tokens[child], drafted[child] = token_id, (*drafted[row], token_id)
        return tokens, log_q

    def _log_weights(self, text_ids: Sequence[int], drafted_ids: Sequence[int]) -> Tensor | None:
        """Logarithms of the user's weights, [vocabulary]; None if all weights are 0."""
        by_user, where = self.user.distribution(text_ids, drafted_ids), f"{self.name}: distribution()"
        if not isinstance(by_user, Mapping):
            raise ValueError(f"{where} gave {by_user!r:.60}, which are not weights by token id")
        by_token: dict[int, float] = {}
        for token_id, weight in by_user.items():
            number = real(weight)
            if number is None or number < 0:
                raise ValueError(f"{where}[{token_id}] = {weight!r:.60} is not a weight of at least 0")
            by_token[self._checked_id(where, token_id)] = number
        if not any(by_token.values()):
            return None
        weights = torch.zeros(self.vocab_size, dtype=torch.float64)
        weights[[*by_token]] = torch.tensor([*by_token.values()], dtype=torch.float64)
        return weights.log_()


def _child(topology: Topology, tokens: Mapping[int, int], row: int, token_id: int, where: str) -> int:
    """The row's child that has this token, else its first child without a token; else ValueError."""
    children = topology.children[row]
    for child in children:
        if tokens.get(child, token_id) == token_id:
            return child
    path, count = topology.path(row), len(children)
    raise ValueError(f"{where} does not fit into the topology, where path {path} has {count} children")
