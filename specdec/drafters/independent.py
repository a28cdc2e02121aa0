"""Drafting with children that are independent draws from q. Equal draws become one node.

For a node with n children in the topology, n tokens are drawn, and the distinct ones are its children: the
first arrivals, as in `model`, but perhaps fewer than n. Nodes below a missing child are not drafted.

Let every token i arrive again and again, after waits that are exponential with rate q_i. Then all
arrivals, in order, are independent samples of q. The distinct tokens among them, in the order of their first
arrivals, are the arrivals of the race without replacement.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from heapq import heapify, heapreplace

from torch import Tensor

from specdec.drafters.model import ModelDrafter, Orders
from specdec.methods import Drafted
from specdec.models.requests import Requesting
from specdec.race import Node, PositionNoise
from specdec.topology import Topology

_LARGEST = 700.0  # the exponential of a larger number may overflow


class IndependentDrafter(ModelDrafter):
    """A `Drafter` that runs the draft model with independent draws, keyed by (seed, position)."""

    _draws: dict[Node, list[int]]  # for each node, the tokens that were drawn

    def draft(
        self, text_ids: Sequence[int], topology: Topology, depth: int, noise: PositionNoise
    ) -> Requesting[Drafted]:
        """Drafts a tree from independent draws; see `Drafter.draft`.

        `Drafted.draws` lists all draws of each node, including repeated tokens.
        """
        self._draws = {}
        drafted = yield from super().draft(text_ids, topology, depth, noise)
        draws = []
        for row, children in enumerate(drafted.topology.children):
            rows = {drafted.token_ids[child]: child for child in children}
            draws.append([rows[token] for token in self._draws.get(drafted.topology.path(row), ())])
        return drafted._replace(draws=draws)

    def _children(
        self, topology: Topology, rows: Sequence[int], logits: Tensor, noise: PositionNoise
    ) -> tuple[Orders, Tensor]:
        """For each row, the distinct tokens among its draws. Each child in the topology is one draw."""
        orders, weights = super()._children(topology, rows, logits, noise)
        depth = topology.depths[rows[0]]
        log_waits = noise.log_waits(depth, topology.widths[depth])
        for row, order, log_w in zip(rows, orders, weights, strict=True):
            node, log_rates = topology.path(row), log_w[order].tolist()
            log_e = noise.race(node).log_e(order)
            log_times = [e - x for e, x in zip(log_e, log_rates, strict=True)]
            sample = with_replacement(order, log_times, log_rates, log_waits)
            self._draws[node] = sample[: len(topology.children[row])]
        return [[*dict.fromkeys(self._draws[topology.path(row)])] for row in rows], weights


def with_replacement(
    tokens: Sequence[int], log_times: Sequence[float], log_q: Sequence[float], log_e: Sequence[float]
) -> list[int]:
    """Independent samples of q, as many as there are numbers in log_e.

    The race continues after its first arrivals: each token that has arrived arrives again after another wait
    e / q. All arrivals in order are independent samples. tokens: the first arrivals of the race, as many as
    samples, or fewer if q has less support. log_times, log_q: logarithms of these tokens' arrival times and
    of their q; the same constant may be added to all of them. log_e: logarithms of the exponentials e of
    later arrivals (`PositionNoise.log_waits`).
    """
    earliest = min(log_times)
    waiting = [(_exp(time - earliest), place) for place, time in enumerate(log_times)]
    heapify(waiting)
    drawn = []
    for wait in log_e:
        time, place = waiting[0]
        drawn.append(tokens[place])
        heapreplace(waiting, (time + _exp(wait - log_q[place] - earliest), place))
    return drawn


def _exp(x: float) -> float:
    return math.exp(x) if x < _LARGEST else math.inf
