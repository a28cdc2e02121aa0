"""From what a round computed to the records that the page shows; outside the hot path."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

import torch
from torch import Tensor

from specdec.draft import Drafted
from specdec.race import log_arrival_times
from specdec.text import TokenTexts
from specdec.topology import Topology
from specdec.trace import Arrival, Node, Status, Step, Trial
from specdec.verify import Attempt, Verdict

_LARGEST = math.log(sys.float_info.max)

LEADING = 8
"""Arrivals recorded per race, under Q and under P each, beside the drafted children."""


def drafted_nodes(
    drafted: Drafted, verdict: Verdict, texts: TokenTexts, log_p: Sequence[Tensor] | None
) -> tuple[Node, ...]:
    """The records of the drafted nodes; with their probabilities where log_p is given."""
    topology, token_ids, log_q = drafted
    statuses = _statuses(topology, verdict)
    nodes = []
    for row, path in enumerate(topology.paths, start=1):
        token_id, parent = token_ids[row], topology.parents[row]
        q = p = None
        if log_p is not None:
            q, p = _probability(log_q[parent], token_id), _probability(log_p[parent], token_id)
        nodes.append(Node(path, token_id, texts[token_id], statuses[row], q, p))
    return tuple(nodes)


def verified_steps(
    drafted: Drafted,
    verdict: Verdict,
    texts: TokenTexts,
    log_p: Sequence[Tensor],
    log_e: Tensor,
    position: int,
) -> tuple[Step, ...]:
    """One record per decided token: its race, GSD's trials, and how it was decided."""
    topology = drafted.topology
    rows = (0, *verdict.rows)
    decided = [(drafted.token_ids[row], "accepted") for row in verdict.rows]
    if verdict.token_id is not None:
        decided.append((verdict.token_id, verdict.kind))
    steps = []
    for row, (token_id, kind) in zip(rows, decided, strict=False):
        depth = topology.depths[row]
        race = _Race(drafted.log_q[row], log_p[row], log_e[depth])
        children = [drafted.token_ids[child] for child in topology.children[row]]
        attempts = [attempt for attempt in verdict.attempts if topology.parents[attempt.row] == row]
        steps.append(
            Step(
                path=topology.paths[row - 1] if row else (),
                position=position + depth,
                leading=race.leading([*children, token_id], texts),
                winner_q=race.winner_q,
                winner_p=race.winner_p,
                trials=tuple(_trial(attempt, drafted) for attempt in attempts),
                token_id=token_id,
                kind=kind,
            )
        )
    return tuple(steps)


class _Race:
    """One position's race under Q and under P on the same exponentials."""

    def __init__(self, log_q: Tensor | None, log_p: Tensor, log_e: Tensor):
        log_e = log_e.to("cpu")
        self.log_e, self.log_p = log_e, log_p.to("cpu")
        self.log_q = None if log_q is None else log_q.to("cpu")
        self.times_p = log_arrival_times(self.log_p, log_e)
        self.times_q = None if log_q is None else log_arrival_times(self.log_q, log_e)
        self.winner_p = int(self.times_p.argmin())
        self.winner_q = None if log_q is None else int(self.times_q.argmin())

    def leading(self, also: Sequence[int], texts: TokenTexts) -> tuple[Arrival, ...]:
        """The first arrivals under P and under Q and the tokens of `also`, by arrival under P."""
        count = min(LEADING, len(self.log_e))
        first = set(self.times_p.topk(count, largest=False).indices.tolist()) | set(also)
        if self.times_q is not None:
            first |= set(self.times_q.topk(count, largest=False).indices.tolist())
        # values are taken out of the tensors all at once: one by one they cost as much as a forward
        token_ids = torch.tensor(sorted(first))
        columns = self.log_e, self.log_q, self.log_p, self.times_q, self.times_p
        nothing = [None] * len(first)
        taken = [nothing if column is None else column[token_ids].tolist() for column in columns]
        rows = sorted(zip(token_ids.tolist(), *taken, strict=True), key=lambda row: row[-1])
        return tuple(_arrival(texts, *row) for row in rows)


def _arrival(
    texts: TokenTexts,
    token_id: int,
    log_e: float,
    log_q: float | None,
    log_p: float,
    time_q: float | None,
    time_p: float,
) -> Arrival:
    return Arrival(
        token_id=token_id,
        text=texts[token_id],
        exponential=math.exp(log_e),
        q=0.0 if log_q is None else math.exp(log_q),
        p=math.exp(log_p),
        arrival_q=None if time_q is None else _time(time_q),
        arrival_p=_time(time_p),
    )


def _statuses(topology: Topology, verdict: Verdict) -> list[Status]:
    """By row. Children of a verified node that were not accepted are rejected, tested or not.

    A path that ended with an accepted end-of-sequence token was not verified below it.
    """
    statuses: list[Status] = ["unvisited"] * len(topology.parents)
    verified = (0, *verdict.rows) if verdict.token_id is not None else (0, *verdict.rows[:-1])
    for row in verified:
        for child in topology.children[row]:
            statuses[child] = "rejected"
    for row in verdict.rows:
        statuses[row] = "accepted"
    return statuses


def _trial(attempt: Attempt, drafted: Drafted) -> Trial:
    row, u, p, q, accepted = attempt
    ratio = p / q if q > 0 else None
    return Trial(drafted.topology.paths[row - 1], drafted.token_ids[row], u, p, q, ratio, accepted)


def _probability(log_p: Tensor, token_id: int) -> float:
    return math.exp(log_p[token_id])


def _time(log_time: float) -> float | None:
    """The arrival time; None where it is infinite, or too large for a float."""
    return math.exp(log_time) if log_time < _LARGEST else None
