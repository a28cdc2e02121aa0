"""From what a round computed to the records that the page shows; outside the hot path."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from operator import itemgetter

import numpy as np
import torch
from torch import Tensor

from specdec.draft import Drafted
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
    decided = [(drafted.token_ids[row], "accepted") for row in verdict.rows]
    if verdict.token_id is not None:
        decided.append((verdict.token_id, verdict.kind))
    rows = (0, *verdict.rows)[: len(decided)]  # an accepted end of the text is verified no further
    races = _Races([drafted.log_q[row] for row in rows], [log_p[row] for row in rows], log_e)
    steps = []
    for depth, (row, (token_id, kind)) in enumerate(zip(rows, decided, strict=True)):
        children = [drafted.token_ids[child] for child in topology.children[row]]
        attempts = [attempt for attempt in verdict.attempts if topology.parents[attempt.row] == row]
        steps.append(
            Step(
                path=topology.paths[row - 1] if row else (),
                position=position + depth,
                leading=races.leading(depth, [*children, token_id], texts),
                winner_q=races.winners_q[depth],
                winner_p=races.winners_p[depth],
                trials=tuple(_trial(attempt, drafted) for attempt in attempts),
                token_id=token_id,
                kind=kind,
            )
        )
    return tuple(steps)


class _Races:
    """The races of a round's positions, under P and under Q on the same exponentials, computed all at once.

    log_q, log_p: by position, [vocabulary]; at a leaf there is no log_q. log_e: at least as many rows.
    """

    def __init__(self, log_q: Sequence[Tensor | None], log_p: Sequence[Tensor], log_e: Tensor):
        raced = [row for row in log_q if row is not None]
        assert all(row is not None for row in log_q[: len(raced)]), "a leaf is the last position"
        self.log_e = log_e[: len(log_p)].cpu().numpy()
        self.log_p, self.times_p, self.winners_p, self._first_p = _raced(log_p, self.log_e)
        self.log_q, self.times_q, self.winners_q, self._first_q = _raced(raced, self.log_e[: len(raced)])
        missing = len(log_p) - len(raced)
        self.winners_q += [None] * missing
        self._first_q += [[]] * missing

    def leading(self, number: int, also: Sequence[int], texts: TokenTexts) -> tuple[Arrival, ...]:
        """The first arrivals under P and under Q and the tokens of `also`, by arrival under P."""
        token_ids = np.array(sorted({*self._first_p[number], *self._first_q[number], *also}))
        at = number, token_ids
        log_e, log_p, times_p = (of[at].tolist() for of in (self.log_e, self.log_p, self.times_p))
        log_q = times_q = [None] * len(token_ids)
        if number < len(self.log_q):
            log_q, times_q = self.log_q[at].tolist(), self.times_q[at].tolist()
        rows = sorted(
            zip(token_ids.tolist(), log_e, log_q, log_p, times_q, times_p, strict=True), key=itemgetter(-1)
        )
        return tuple(_arrival(texts, *row) for row in rows)


def _raced(
    log_p: Sequence[Tensor], log_e: np.ndarray
) -> tuple[np.ndarray, np.ndarray, list[int | None], list[list[int]]]:
    """log p and log times [positions, vocabulary], the winners, and the first arrivals in any order."""
    if not log_p:
        return log_e, log_e, [], []
    rows = torch.stack(tuple(log_p)).cpu().numpy()
    times = log_e - rows
    count = min(LEADING, times.shape[-1])
    first = np.argpartition(times, count - 1, axis=-1)[:, :count]
    return rows, times, times.argmin(-1).tolist(), first.tolist()


def _arrival(
    texts: TokenTexts,
    token_id: int,
    log_e: float,
    log_q: float | None,
    log_p: float,
    time_q: float | None,
    time_p: float,
) -> Arrival:
    # by place, in the order of the fields: names would take as long as all the rest
    return Arrival(
        token_id,
        texts[token_id],
        math.exp(log_e),
        0.0 if log_q is None else math.exp(log_q),
        math.exp(log_p),
        None if time_q is None else _time(time_q),
        _time(time_p),
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
