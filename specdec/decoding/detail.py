"""Makes the detailed record of a round for the page: its drafted nodes and its verified positions.

Runs without `detail` skip this work.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from specdec import theory
from specdec.methods import Attempt, Drafted, Kind, Verdict
from specdec.probs import race_weights
from specdec.race import PositionNoise, Race, splitmix
from specdec.text import TokenTexts
from specdec.topology import Topology
from specdec.trace import Arrival, Node, Status, Step, Trial

_LARGEST = math.log(sys.float_info.max)
_NEGLIGIBLE = -80.0
"""The logarithm of a negligible probability: even the sum of such probabilities over any vocabulary is below
the rounding error of float64."""

LEADING = 4
"""The record of a race lists this many first arrivals under Q and as many under P, in addition to the drafted
children and the decided token. The page shows no more bars."""
MOST_DRAFTS, MOST_TOKENS = 16, 16_384
"""`trace.Step.optimum` is not computed for more than `MOST_DRAFTS` drafts, nor for several drafts if more
than `MOST_TOKENS` tokens have q > 0: both would take longer than 10 ms. For a single draft it takes less than
1 ms at 150,000 tokens.
"""
SOME_DRAFTS, SOME_TOKENS, EVERY = 3, 256, 8
"""With `SOME_DRAFTS` or more drafts without replacement and more than `SOME_TOKENS` tokens with q > 0,
computing the optimum takes several times as long as decoding a token with a small model. In this case it is
computed only at positions that are multiples of `EVERY`."""


def drafted_nodes(
    drafted: Drafted, verdict: Verdict, texts: TokenTexts, log_p: Sequence[Tensor] | None
) -> tuple[Node, ...]:
    """The records of a round's drafted nodes. log_p: by row; None leaves out all probabilities."""
    topology, token_ids, log_q, _, copied = drafted
    statuses = _statuses(topology, verdict)
    nodes = []
    for row, path in enumerate(topology.paths, start=1):
        token_id, parent = token_ids[row], topology.parents[row]
        q = p = None
        if log_p is not None:
            drafted_from, p = log_q[parent], _probability(log_p[parent], token_id)
            q = None if drafted_from is None else _probability(drafted_from, token_id)
        nodes.append(Node(path, token_id, texts[token_id], statuses[row], q, p, row in copied))
    return tuple(nodes)


def verified_steps(
    drafted: Drafted,
    verdict: Verdict,
    texts: TokenTexts,
    log_p: Sequence[Tensor],
    noise: PositionNoise,
    grown: bool = False,
) -> tuple[Step, ...]:
    """Makes a record for each decided token: its race, its acceptance tests, and how it was decided.

    grown: whether the tree's shape depends on the noise that decides; if so, no optimum is recorded. A test
    goes into the record of the deepest accepted node above the tested node, or of the root if there is none.
    (Traversal verification also tests nodes below rejected ones.)
    """
    topology = drafted.topology
    decided: list[tuple[int, Kind]] = [(drafted.token_ids[row], "accepted") for row in verdict.rows]
    if verdict.token_id is not None:
        decided.append((verdict.token_id, verdict.kind))
    rows = (0, *verdict.rows)[: len(decided)]  # nothing is verified after an accepted end-of-sequence token
    steps: list[Step] = []
    deciding = _deciding(topology, verdict)
    for depth, (row, (token_id, kind)) in enumerate(zip(rows, decided, strict=True)):
        children = [drafted.token_ids[child] for child in topology.children[row]]
        attempts = [attempt for attempt in verdict.attempts if deciding[attempt.row] == row]
        race, log_q = noise.race(topology.path(row)), drafted.log_q
        # drafting and verification used exactly these weights, from which log_p may differ by rounding
        (under_p,) = race.arrivals(race_weights(log_p, row)[None], LEADING)
        weights = race_weights(log_q, row)
        under_q = [] if weights is None else race.arrivals(weights[None], LEADING)[0]
        tokens = sorted({*under_p, *under_q, *children, token_id})
        position = noise.position + depth
        steps.append(
            Step(
                path=topology.path(row),
                position=position,
                leading=_leading(race, log_p[row], log_q[row], tokens, texts),
                winner_q=under_q[0] if under_q else None,
                winner_p=under_p[0],
                trials=tuple(_trial(attempt, drafted) for attempt in attempts),
                token_id=token_id,
                kind=kind,
                optimum=None if grown else _optimum(drafted, row, log_p[row], position),
            )
        )
    return tuple(steps)


def _optimum(drafted: Drafted, row: int, log_p: Tensor, position: int) -> float | None:
    """The highest probability with which a lossless rule can accept a child of this row; see `trace.Step`.

    None if it is not defined, or if computing it would take too long. log_p: [vocabulary].
    """
    log_q, replacement = drafted.log_q[row], bool(drafted.draws)
    drafts = drafted.candidates(row)
    if log_q is None or not drafts or len(drafts) > MOST_DRAFTS:
        return None
    log_q = log_q.to(log_p.device)
    if len(drafts) == 1:
        return min(_common(log_p, log_q), 1.0)
    tokens = int((log_q > -_LARGEST).sum())
    is_slow = tokens > SOME_TOKENS and len(drafts) >= SOME_DRAFTS and not replacement
    if tokens > MOST_TOKENS or (is_slow and position % EVERY):
        return None
    p, q = (log.double().exp() for log in (log_p, log_q))
    p, q = p / p.sum(), q / q.sum()
    return float(theory.optimal_acceptance(p, q, len(drafts), replacement))


def _common(log_p: Tensor, log_q: Tensor) -> float:
    """Σ min(p, q): the highest probability with which a lossless rule accepts a single draft from q."""
    if log_p.device.type != "cpu":
        return float(torch.minimum(log_p, log_q).exp_().sum(dtype=torch.float64))
    total, p, q = 0.0, log_p.numpy(), log_q.numpy()
    for part in splitmix.parts(len(p)):  # allocating memory for all tokens at once would dominate the time
        least = np.minimum(p[part], q[part])
        total += float(np.exp(least[least > _NEGLIGIBLE]).sum(dtype=np.float64))
    return total


def _leading(
    race: Race, log_p: Tensor, log_q: Tensor | None, tokens: Sequence[int], texts: TokenTexts
) -> tuple[Arrival, ...]:
    """The records of these tokens in a race, in the order of arrival under P. log_p, log_q: [vocabulary]."""
    p = _indexed(log_p)[tokens].tolist()
    q = [None] * len(tokens) if log_q is None else _indexed(log_q)[tokens].tolist()
    arrivals = map(partial(_arrival, texts), tokens, race.log_e(tokens), q, p)
    never = math.inf
    return tuple(sorted(arrivals, key=lambda each: never if each.arrival_p is None else each.arrival_p))


def _arrival(texts: TokenTexts, token_id: int, log_e: float, log_q: float | None, log_p: float) -> Arrival:
    # Positional arguments, because keyword arguments would double the time.
    return Arrival(
        token_id,
        texts[token_id],
        math.exp(log_e),
        0.0 if log_q is None else math.exp(log_q),
        math.exp(log_p),
        None if log_q is None else _time(log_e - log_q),
        _time(log_e - log_p),
    )


def _statuses(topology: Topology, verdict: Verdict) -> list[Status]:
    """The status of each row (node).

    A child of a verified node is rejected if it was not accepted, even if it was never tested. Any other node
    that failed a test is rejected too. Below an accepted end-of-sequence token no node was verified.
    """
    statuses: list[Status] = ["unvisited"] * len(topology.parents)
    verified = (0, *verdict.rows) if verdict.token_id is not None else (0, *verdict.rows[:-1])
    for row in verified:
        for child in topology.children[row]:
            statuses[child] = "rejected"
    below = [attempt.row for attempt in verdict.attempts if statuses[attempt.row] == "unvisited"]
    if below:
        deciding = _deciding(topology, verdict)
        for row in below:
            statuses[row] = "rejected" if deciding[row] in verified else "unvisited"
    for row in verdict.rows:
        statuses[row] = "accepted"
    return statuses


def _deciding(topology: Topology, verdict: Verdict) -> list[int]:
    """For each row, the deepest accepted row above it on its path; the root if there is none."""
    accepted, deciding = {0, *verdict.rows}, [0]
    for parent in topology.parents[1:]:
        deciding.append(parent if parent in accepted else deciding[parent])
    return deciding


def _trial(attempt: Attempt, drafted: Drafted) -> Trial:
    row, u, p, q, accepted, ratio = attempt
    if ratio is None and q > 0:
        ratio = p / q
    return Trial(drafted.topology.paths[row - 1], drafted.token_ids[row], u, p, q, ratio, accepted)


def _probability(log_p: Tensor, token_id: int) -> float:
    return math.exp(_indexed(log_p)[token_id])


def _indexed(row: Tensor) -> Any:
    """A row as a numpy array if it is on a CPU, because numpy reads a single entry ten times as fast as
    torch."""
    return row.numpy() if row.device.type == "cpu" else row


def _time(log_time: float) -> float | None:
    """An arrival time for the record: None if it is infinite or too large for a float."""
    return math.exp(log_time) if log_time < _LARGEST else None
